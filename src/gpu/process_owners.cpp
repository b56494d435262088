#include "gpu/process_owners.hpp"

#include <string>
#include <system_error>

#include "system/process.hpp"

namespace muster::gpu {
namespace {

namespace fs = std::filesystem;

// The kernel gives the initial pid namespace a fixed inode number (PROC_PID_INIT_INO).
bool in_initial_namespace(const fs::path& proc) {
  std::error_code failure;
  return fs::read_symlink(proc / "self/ns/pid", failure) == "pid:[4026531836]";
}

bool holds_nvidia_device(pid_t pid, const fs::path& proc) {
  std::error_code failure;
  fs::directory_iterator files(proc / std::to_string(pid) / "fd", failure);
  if (failure) return false;
  for (; files != fs::directory_iterator(); files.increment(failure)) {
    std::error_code unreadable;
    if (fs::read_symlink(files->path(), unreadable).string().starts_with("/dev/nvidia")) return true;
  }
  return false;
}

}  // namespace

void add_owner(GpuProcess& process, const fs::path& proc) {
  if (!in_initial_namespace(proc) && !holds_nvidia_device(process.pid, proc)) return;
  const auto status = read_process_status(process.pid, proc);
  process.exiting = status && status->exiting;
  const auto facts = read_process(process.pid, proc);
  if (!facts) return;
  process.user = facts->user;
  if (facts->command && !facts->command->empty()) process.command = facts->command;
}

}  // namespace muster::gpu
