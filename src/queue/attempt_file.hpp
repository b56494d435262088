// One attempt of a job, as its keeper tells it: jobs/<id>/attempt-<k>.jsonl. The keeper, and everything it started,
// holds the lock of this file, so that a file which is not locked has nobody left. Its first line says that the command
// was about to begin, its second how it ended. Without the first, it never began.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>

#include "base/file_lock.hpp"
#include "base/process.hpp"
#include "schedule/process_end.hpp"

namespace muster::queue {

using CommandEnd = schedule::ProcessEnd;
struct NotStarted {
  std::string reason;
  bool operator==(const NotStarted&) const = default;
};
using AttemptEnd = std::variant<CommandEnd, NotStarted>;

struct AttemptRecord {
  std::optional<ProcessIdentity> keeper;  // absent: it never began
  std::optional<AttemptEnd> end;
  bool operator==(const AttemptRecord&) const = default;
};

std::string begun_line(const ProcessIdentity& keeper);
std::string ended_line(const AttemptEnd& end);
// What is damaged never happened.
AttemptRecord parse_attempt(std::string_view text);

struct AttemptView {
  AttemptRecord record;
  LockState lock = LockState::missing;
};
// The lock is asked before the text is read: of one that is not locked, the text is final. Unknown too where the text
// cannot be read: of such a file nothing is known, and nothing may be concluded.
AttemptView look_at_attempt(const std::filesystem::path& path);

}  // namespace muster::queue
