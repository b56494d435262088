#include "queue/attempt_file.hpp"

#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/text.hpp"
#include "schedule/job_json.hpp"

namespace muster::queue {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using schedule::HowEnded;

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<AttemptEnd> parse_end(const json& line) {
  const std::string event = text_of(line, "event");
  if (event == "not_started") return NotStarted{text_of(line, "reason")};
  const auto code = line.find("code");
  if (event != "ended" || code == line.end() || !code->is_number_integer()) return std::nullopt;
  const std::string how = text_of(line, "how");
  for (const HowEnded known : {HowEnded::exited, HowEnded::killed, HowEnded::out_of_memory})
    if (how == name(known)) return CommandEnd{known, code->get<int>()};
  return std::nullopt;
}

}  // namespace

std::string begun_line(const ProcessIdentity& keeper) {
  return ordered_json{{"event", "begun"}, {"keeper", to_string(keeper)}}.dump() + "\n";
}

std::string ended_line(const AttemptEnd& end) {
  if (const auto* failed = std::get_if<NotStarted>(&end))
    return ordered_json{{"event", "not_started"}, {"reason", failed->reason}}.dump(
               -1, ' ', false, ordered_json::error_handler_t::replace) +
           "\n";
  const auto& [how, code] = std::get<CommandEnd>(end);
  return ordered_json{{"event", "ended"}, {"how", name(how)}, {"code", code}}.dump() + "\n";
}

AttemptRecord parse_attempt(std::string_view text) {
  AttemptRecord record;
  std::vector<std::string> lines = split(text, '\n');
  lines.pop_back();  // what follows the last newline was never finished
  for (const std::string& text_line : lines) {
    const json line = json::parse(text_line, nullptr, false);
    if (!line.is_object()) continue;
    if (text_of(line, "event") == "begun")
      record = {parse_identity(text_of(line, "keeper")), {}};  // an end before it was another's
    else
      record.end = parse_end(line);
  }
  return record;
}

AttemptView look_at_attempt(const std::filesystem::path& path) {
  AttemptView view;
  view.lock = lock_state(path);
  if (view.lock == LockState::missing || view.lock == LockState::unknown) return view;
  if (const auto text = read_file(path))
    view.record = parse_attempt(*text);
  else
    view.lock = LockState::unknown;
  return view;
}

}  // namespace muster::queue
