#include "wire/event.hpp"

#include <cmath>

#include "json/fields.hpp"
#include "spec/values.hpp"

namespace muster::wire {
namespace {

constexpr const char* event_key = "event";
constexpr const char* event_source = "a line from a worker";
using std::chrono::milliseconds;

}  // namespace

std::string print(const Event& event) {
  const auto since_epoch = std::chrono::duration_cast<milliseconds>(event.time.time_since_epoch());
  Json json;
  json["time"] = static_cast<double>(since_epoch.count()) / 1000.0;
  json[event_key] = "";
  json["rank"] = event.rank;
  write_kind(json, event_key, event.body);
  return as_line(json);
}

Result<Event> parse_event(std::string_view line) {
  const auto unreadable = [](const std::string& why) {
    return Error{Error::Kind::failed, fmt::format("{}: {}", event_source, why),
                 "use muster and muster-worker of the same build: ./muster builds both"};
  };
  const auto json = parse_json_object(line, event_source);
  if (!json) return unreadable(json.error().what);
  const auto time = json->find("time");
  const auto rank = json->find("rank");
  if (time == json->end() || rank == json->end()) return unreadable("it lacks \"time\" or \"rank\"");
  double seconds = 0;
  Event event;
  if (auto wrong = read_json(*time, seconds)) return unreadable(fmt::format("\"time\" {}", *wrong));
  if (auto wrong = read_json(*rank, event.rank)) return unreadable(fmt::format("\"rank\" {}", *wrong));
  if (!(std::abs(seconds) < 1e12)) return unreadable("\"time\" is not a time");
  event.time = std::chrono::system_clock::time_point(milliseconds(std::llround(seconds * 1000.0)));
  if (auto wrong = read_kind(*json, event_key, event.body)) return unreadable(*wrong);
  return event;
}

}  // namespace muster::wire
