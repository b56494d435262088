#include "system/process_handle.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace muster {

// Older C libraries have no functions for these two.
FileDescriptor open_process(pid_t pid) { return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

bool signal_process(const FileDescriptor& process, int signal) {
  return ::syscall(SYS_pidfd_send_signal, process.number(), signal, nullptr, 0) == 0;
}

bool wait_for_end(const FileDescriptor& process, std::chrono::steady_clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd waiting{process.number(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000))) > 0) return true;
    if (left <= 0) return false;
  }
}

}  // namespace muster
