// One attempt of a job, as its keeper reports it: jobs/<id>/attempt-<k>.jsonl. The keeper, and everything it started,
// holds the lock of this file, so that a file which is not locked has no process left. Its first line says that the
// command was about to begin, its second how it ended. Without the first, it never began. An attempt that did not begin
// for lack of something is made again, and adds its lines to the same file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>

#include "system/file_lock.hpp"
#include "system/process.hpp"
#include "schedule/process_end.hpp"

namespace muster::queue {

using CommandEnd = schedule::ProcessEnd;
// The command did not begin.
struct NotStarted {
  enum class Cause {
    command,   // it cannot be run: the program or its folder is missing, say
    shortage,  // the system lacks something: system/shortage.hpp
    gpus,      // its GPUs are not ready: memory of their previous holders is still in use
  };
  std::string reason;
  Cause cause = Cause::command;

  // What failed, with an errno.
  static NotStarted because(const std::string& what, int error);
  bool operator==(const NotStarted&) const = default;
};
using AttemptEnd = std::variant<CommandEnd, NotStarted>;

struct AttemptRecord {
  std::optional<ProcessIdentity> keeper;  // absent: it never began
  std::optional<AttemptEnd> end;
  bool is_damaged = false;  // a whole line cannot be read: it may have begun

  // Whether it is known that the command did not begin, through no fault of its own: the attempt may be made again.
  bool may_be_repeated() const;
  bool operator==(const AttemptRecord&) const = default;
};

std::string begun_line(const ProcessIdentity& keeper);
std::string ended_line(const AttemptEnd& end);
// A last line without a newline was never finished.
AttemptRecord parse_attempt(std::string_view text);

// Reserves space for the lines of one attempt, so that its end can be written even if the disk fills up later.
// Returns what is lacking, if there is no space.
std::optional<NotStarted> reserve_room(const FileDescriptor& attempt, const std::filesystem::path& path);

struct AttemptView {
  AttemptRecord record;
  LockState lock = LockState::missing;
};
// The lock is checked before the text is read: if it is not locked, the text is final. Also unknown if the text
// cannot be read: nothing is known about such a file, and nothing may be concluded.
AttemptView look_at_attempt(const std::filesystem::path& path);

}  // namespace muster::queue
