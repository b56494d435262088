// The kernel's own list of file locks, which names the process that took each.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace muster::lease {

class KernelLocks {
 public:
  // One reading of /proc/locks; empty where there is none. proc is a parameter for tests.
  static KernelLocks read(const std::filesystem::path& proc = "/proc");

  // The process that took the lock on this file. Absence proves nothing: a pid namespace hides locks that were taken
  // outside of it, and those whose taker died while others inherited them.
  std::optional<pid_t> taker(const struct stat& file) const;
  // A process other than this one that has a shared lock on the file. Those who look take one for an instant.
  std::optional<pid_t> sharer(const struct stat& file) const;

 private:
  struct Entry {
    pid_t pid;
    std::string file;  // "fe:00:2146454"
    bool shared;
  };
  std::vector<Entry> entries_;
};

// Whether the process we know as pid calls itself recorded: the numbers differ across pid namespaces.
bool is_same_process(pid_t pid, pid_t recorded, const std::filesystem::path& proc = "/proc");

}  // namespace muster::lease
