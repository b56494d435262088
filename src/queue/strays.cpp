#include "queue/strays.hpp"

#include <signal.h>

#include <filesystem>

#include "base/process_handle.hpp"
#include "base/text.hpp"
#include "launch/keeper_mark.hpp"

namespace muster::queue {

int kill_strays(const ProcessIdentity& keeper) {
  int found = 0;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failure)) {
    const auto pid = parse_number<pid_t>(entry.path().filename().string());
    if (!pid) continue;
    const FileDescriptor handle = open_process(*pid);
    // The mark is read after the handle is there: it is that of the process the handle means, or that one is gone.
    if (!handle || !launch::carries_mark(*pid, keeper)) continue;
    ++found;
    signal_process(handle, SIGKILL);
  }
  return found;
}

}  // namespace muster::queue
