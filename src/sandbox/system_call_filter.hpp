// Which system calls a confined program may make: a program for the kernel's filter (seccomp).
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <cstddef>
#include <vector>

namespace muster::sandbox {

struct FilterOptions {
  bool own_namespaces = true;       // false: the kernel's objects are those of the host, so more is denied
  bool may_fork = false;            // true needs namespaces: else nothing would bound and end what it starts
  bool truncation_is_open = false;  // Landlock of this kernel does not cover truncation
};

struct SystemCallFilter {
  std::vector<sock_filter> instructions;
  std::vector<std::size_t> own_pid_at;  // instructions whose constant becomes the id of the confined process
};

SystemCallFilter make_filter(const FilterOptions& options);

// In the process that is to be confined; safe after a fork of a process with threads.
void write_own_pid(SystemCallFilter& filter, pid_t pid);

// From now on, and in whatever this process executes. 0 or errno.
int apply_filter(const SystemCallFilter& filter);

}  // namespace muster::sandbox
