#include "queue/attempt_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "system/files.hpp"
#include "system/shortage.hpp"
#include "base/text.hpp"
#include "json/member_reader.hpp"
#include "schedule/job_json.hpp"

namespace muster::queue {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using schedule::HowEnded;

std::string text_of(const json& object, const char* key) { return find_text(object, key).value_or(""); }

// Absent in the file: the command's own.
constexpr std::string_view cause_names[] = {"command", "shortage", "gpus"};

NotStarted::Cause cause_called(const std::string& text) {
  const auto* known = std::ranges::find(cause_names, text);
  return known == std::end(cause_names) ? NotStarted::Cause::command
                                        : static_cast<NotStarted::Cause>(known - std::begin(cause_names));
}

std::optional<AttemptEnd> parse_end(const json& line) {
  const std::string event = text_of(line, "event");
  if (event == "not_started") return NotStarted{text_of(line, "reason"), cause_called(text_of(line, "cause"))};
  const auto code = find_whole(line, "code");
  if (event != "ended" || !code) return std::nullopt;
  const std::string how = text_of(line, "how");
  for (const HowEnded known : {HowEnded::exited, HowEnded::killed, HowEnded::out_of_memory})
    if (how == name(known)) return CommandEnd{known, static_cast<int>(*code)};
  return std::nullopt;
}

}  // namespace

NotStarted NotStarted::because(const std::string& what, int error) {
  return {fmt::format("{}: {}", what, std::generic_category().message(error)),
          is_shortage(error) ? Cause::shortage : Cause::command};
}

bool AttemptRecord::may_be_repeated() const {
  if (is_damaged) return false;
  if (!keeper && !end) return true;
  const auto* failed = end ? std::get_if<NotStarted>(&*end) : nullptr;
  return failed != nullptr && failed->cause != NotStarted::Cause::command;
}

std::string begun_line(const ProcessIdentity& keeper) {
  return ordered_json{{"event", "begun"}, {"keeper", to_string(keeper)}}.dump() + "\n";
}

std::string ended_line(const AttemptEnd& end) {
  if (const auto* failed = std::get_if<NotStarted>(&end))
    return ordered_json{{"event", "not_started"},
                        {"reason", failed->reason},
                        {"cause", cause_names[static_cast<std::size_t>(failed->cause)]}}
               .dump(-1, ' ', false, ordered_json::error_handler_t::replace) +
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
    if (!line.is_object()) {
      record.is_damaged = true;
    } else if (text_of(line, "event") == "begun") {
      record.keeper = parse_identity(text_of(line, "keeper"));
      record.end.reset();  // an end before it belongs to another
    } else {
      record.end = parse_end(line);
    }
  }
  return record;
}

std::optional<NotStarted> reserve_room(const FileDescriptor& attempt, const std::filesystem::path& path) {
  constexpr off_t room = 4096;
  const off_t size = ::lseek(attempt.number(), 0, SEEK_END);
  if (size < 0 || ::fallocate(attempt.number(), FALLOC_FL_KEEP_SIZE, size, room) == 0 || !is_shortage(errno))
    return std::nullopt;  // where the file system cannot do it, the keeper's first line is the test
  return NotStarted::because(fmt::format("cannot write {}", path.string()), errno);
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
