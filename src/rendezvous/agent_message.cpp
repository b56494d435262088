#include "rendezvous/agent_message.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/one_line.hpp"
#include "json/member_reader.hpp"

namespace muster::rendezvous {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// Names of hosts, roles and runs; what is longer is not a name.
constexpr std::size_t longest_name = 1024;
// Reasons are for people; what is longer is cut.
constexpr std::size_t longest_reason = 16 * 1024;
constexpr std::int64_t highest_int = std::numeric_limits<int>::max();
constexpr std::int64_t lowest_int = std::numeric_limits<int>::min();
constexpr std::int64_t longest_span = std::int64_t{366} * 24 * 3600 * 1000;

// ---- out ----

std::string cut(const std::string& reason) { return reason.substr(0, longest_reason); }

json fields(const Join& join) {
  json fields{{"message", "join"},
              {"protocol", join.protocol},
              {"run_id", join.run_id},
              {"host", join.host},
              {"pid", join.pid},
              {"role", join.role},
              {"local_world_size", join.local_world_size},
              {"leads", join.leads}};
  if (join.node_rank) fields["node_rank"] = *join.node_rank;
  return fields;
}
json fields(const Alive&) { return {{"message", "alive"}}; }
json fields(const Succeeded& succeeded) { return {{"message", "succeeded"}, {"round", succeeded.round}}; }
json fields(const Failed& failed) {
  return {{"message", "failed"}, {"round", failed.round}, {"age_ms", failed.age.count()}, {"failure", failed.failure}};
}
json fields(const Stopped& stopped) { return {{"message", "stopped"}, {"round", stopped.round}}; }
json fields(const Leaving& leaving) { return {{"message", "leaving"}, {"reason", cut(leaving.reason)}}; }

json fields(const Welcome& welcome) {
  return {{"message", "welcome"},
          {"alive_interval_ms", welcome.alive_interval.count()},
          {"silence_ms", welcome.silence.count()}};
}
json fields(const Start& start) {
  return {{"message", "start"},
          {"round", start.round},
          {"restart_count", start.restart_count},
          {"group_rank", start.group_rank},
          {"group_world_size", start.group_world_size},
          {"first_rank", start.first_rank},
          {"world_size", start.world_size},
          {"first_role_rank", start.first_role_rank},
          {"role_world_size", start.role_world_size}};
}
json fields(const Stop& stop) { return {{"message", "stop"}, {"round", stop.round}, {"reason", cut(stop.reason)}}; }
json fields(const Finish& finish) {
  json fields{{"message", "finish"}, {"success", finish.success}, {"reason", cut(finish.reason)}};
  if (finish.failure) fields["failure"] = *finish.failure;
  return fields;
}
json fields(const Refuse& refuse) {
  return {{"message", "refuse"}, {"reason", cut(refuse.reason)}, {"retry", refuse.retry}};
}

// Bytes that are no UTF-8 (a host's name, a rank's last words) are replaced, never refused.
std::string line(const json& fields) { return fields.dump(-1, ' ', false, json::error_handler_t::replace) + '\n'; }

Failed without_failure(Failed failed) {
  failed.failure.clear();
  return failed;
}
Finish without_failure(Finish finish) {
  finish.failure.reset();
  return finish;
}
template <class Message>
Message without_failure(Message message) {
  return message;
}

template <class Message>
std::string line_that_fits(const Message& message) {
  std::string text = line(fields(message));
  return text.size() <= longest_message ? text : line(fields(without_failure(message)));
}

// ---- in ----

// The fields of one message, within the limits of the protocol. Whatever is not as it should be is remembered, the
// first time, and read as nothing.
class FieldsReader {
 public:
  explicit FieldsReader(const json& object) : members_(object) {}

  std::int64_t number(const char* name, std::int64_t lowest, std::int64_t highest) {
    return members_.whole(name, lowest, highest);
  }
  int integer(const char* name, std::int64_t lowest, std::int64_t highest = highest_int) {
    return static_cast<int>(number(name, lowest, highest));
  }
  milliseconds span(const char* name, std::int64_t lowest) { return milliseconds(number(name, lowest, longest_span)); }
  bool truth(const char* name) { return members_.truth(name); }
  std::string text(const char* name, std::size_t longest = longest_message) { return members_.text(name, longest); }
  // Shown to people: nothing in it may order a terminal about. A replaced byte is three bytes long.
  std::string name(const char* field) { return on_one_line(text(field, longest_name), longest_name); }
  std::string reason() { return on_one_line(text("reason", 3 * longest_reason), longest_reason); }
  bool has(const char* name) const { return members_.has(name); }

  std::optional<std::string> problem() const {
    const auto& problem = members_.problem();
    if (!problem) return std::nullopt;
    return fmt::format("\"{}\" is {:.100}: {} is expected", problem->key, seen(problem->seen), problem->wanted);
  }

 private:
  // Lists and objects are not written out: that would go as deep as they are nested.
  static std::string seen(const json* value) {
    if (value == nullptr) return "missing";
    if (value->is_structured()) return fmt::format("of type {}", value->type_name());
    return value->dump(-1, ' ', true, json::error_handler_t::replace);
  }

  MemberReader members_;
};

Join read_join(FieldsReader& reader) {
  Join join;
  join.protocol = reader.integer("protocol", 0);
  if (join.protocol != agent_protocol) return join;
  join.run_id = reader.name("run_id");
  join.host = reader.name("host");
  join.pid = reader.number("pid", 0, std::numeric_limits<std::int64_t>::max());
  join.role = reader.name("role");
  join.local_world_size = reader.integer("local_world_size", lowest_int);
  if (reader.has("node_rank")) join.node_rank = reader.integer("node_rank", lowest_int);
  join.leads = reader.truth("leads");
  return join;
}

Failed read_failed(FieldsReader& reader) {
  return {reader.integer("round", 0), reader.span("age_ms", 0), reader.text("failure")};
}

Start read_start(FieldsReader& reader) {
  Start start;
  start.round = reader.integer("round", 0);
  start.restart_count = reader.integer("restart_count", 0);
  start.group_world_size = reader.integer("group_world_size", 1);
  start.group_rank = reader.integer("group_rank", 0, start.group_world_size - 1);
  start.world_size = reader.integer("world_size", 1);
  start.first_rank = reader.integer("first_rank", 0, start.world_size - 1);
  start.role_world_size = reader.integer("role_world_size", 1, start.world_size);
  start.first_role_rank = reader.integer("first_role_rank", 0, start.role_world_size - 1);
  return start;
}

Finish read_finish(FieldsReader& reader) {
  Finish finish{reader.truth("success"), reader.reason(), std::nullopt};
  if (reader.has("failure")) finish.failure = reader.text("failure");
  return finish;
}

std::optional<AgentMessage> read_agent_message(const std::string& kind, FieldsReader& reader) {
  if (kind == "join") return read_join(reader);
  if (kind == "alive") return Alive{};
  if (kind == "succeeded") return Succeeded{reader.integer("round", 0)};
  if (kind == "failed") return read_failed(reader);
  if (kind == "stopped") return Stopped{reader.integer("round", 0)};
  if (kind == "leaving") return Leaving{reader.reason()};
  return std::nullopt;
}

std::optional<CoordinatorMessage> read_coordinator_message(const std::string& kind, FieldsReader& reader) {
  if (kind == "welcome") return Welcome{reader.span("alive_interval_ms", 1), reader.span("silence_ms", 1)};
  if (kind == "alive") return Alive{};
  if (kind == "start") return read_start(reader);
  if (kind == "stop") return Stop{reader.integer("round", 0), reader.reason()};
  if (kind == "finish") return read_finish(reader);
  if (kind == "refuse") return Refuse{reader.reason(), reader.truth("retry")};
  return std::nullopt;
}

Error unreadable(std::string what) {
  return {Error::Kind::failed, "a message that cannot be read: " + what, "use the same muster on every host"};
}

template <class Message>
Result<Message> decode(std::string_view line, std::optional<Message> (*read)(const std::string& kind, FieldsReader& reader)) {
  if (line.size() > longest_message)
    return unreadable(fmt::format("{} bytes, {} at most", line.size(), longest_message));
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return unreadable("it is not a JSON object");
  FieldsReader reader(object);
  const std::string kind = reader.text("message", longest_name);
  const std::optional<Message> message = read(kind, reader);
  if (reader.problem()) return unreadable(*reader.problem());
  if (!message) return unreadable(fmt::format("\"{:.100}\" is an unknown kind", kind));
  return *message;
}

}  // namespace

std::string encode(const AgentMessage& message) {
  return std::visit([](const auto& kind) { return line_that_fits(kind); }, message);
}

std::string encode(const CoordinatorMessage& message) {
  return std::visit([](const auto& kind) { return line_that_fits(kind); }, message);
}

Result<AgentMessage> decode_agent_message(std::string_view line) { return decode(line, read_agent_message); }

Result<CoordinatorMessage> decode_coordinator_message(std::string_view line) {
  return decode(line, read_coordinator_message);
}

}  // namespace muster::rendezvous
