#include "queue/orphans.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <filesystem>

#include "system/files.hpp"
#include "system/process_handle.hpp"
#include "base/text.hpp"
#include "launch/keeper/descendants.hpp"
#include "launch/keeper/keeper_mark.hpp"

namespace muster::queue {

int kill_marked_processes(const ProcessIdentity& keeper) {
  int found = 0;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failure)) {
    const auto pid = parse_number<pid_t>(entry.path().filename().string());
    if (!pid) continue;
    const FileDescriptor handle = open_process(*pid);
    // The mark is read after the handle exists: it belongs to the process of the handle, or that one is gone.
    if (!handle || !launch::carries_mark(*pid, keeper)) continue;
    ++found;
    signal_process(handle, SIGKILL);
  }
  return found;
}

int kill_orphans() {
  int found = 0;
  for (const pid_t child : launch::children_of_this_process()) {
    const auto name = read_file(fmt::format("/proc/{}/comm", child));
    const auto status = read_process_status(child);
    // One that cannot be examined, for lack of descriptors, may be a keeper.
    if (!name || !status || status->ended || name->starts_with("muster")) continue;
    ++found;
    launch::kill_child_with_group(child);
  }
  return found;
}

}  // namespace muster::queue
