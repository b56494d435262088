// The side of a sandbox that runs in the child process, between fork and exec. The process it was forked from has threads,
// so nothing here allocates: all that it needs lies ready in a Confinement.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <span>

#include "sandbox/system_call_filter.hpp"

namespace muster::sandbox {

// A file or folder of the host that the program sees under the same path.
struct VisiblePath {
  const char* path;
  bool is_folder;
  bool is_device;
};

struct VisibleLink {
  const char* path;
  const char* target;
};

struct ResourceLimit {
  int resource;
  rlim_t value;
};

struct Confinement {
  bool own_namespaces;
  int landlock_abi;  // without namespaces
  std::span<const VisiblePath> visible;
  std::span<const VisibleLink> links;
  const char* files_size;                // of /tmp, as text
  std::span<const ResourceLimit> limits;
  SystemCallFilter* filter;
  char* const* arguments;
  char* const* environment;
  int control;                    // to the process outside
  std::span<const int> streams;   // become descriptors 0, 1, 2, 3 ...; all numbers here are above those
  bool becomes_nobody;            // the process outside is root
};

// What the child process says to the one outside, on the control socket.
enum class Step : std::int32_t {
  ended,  // the program has; value is its wait status
  wait_for_outside,
  take_identity,
  show_files,
  make_root,
  start_program,
  restrict_files,
  set_limits,
  filter_calls,
  execute,
};
struct Report {
  Step step;
  std::int32_t value;  // errno where the step failed
  std::int64_t cpu_milliseconds;
  std::int64_t peak_kibibytes;
};

constexpr uid_t identity_inside = 1000;   // in namespaces
constexpr uid_t identity_of_nobody = 65534;  // outside, where root would be

// Prepares what the program sees, starts it, reports its end, and takes all its processes along. Ends the program when
// the control socket is closed or a byte comes over it; the first byte is the permission to begin.
[[noreturn]] void keep(const Confinement& confinement);

// 0 or errno each; the parts of keep.
int open_visible(std::span<const VisiblePath> visible, std::span<int> trees);
int make_root(const Confinement& confinement, std::span<const int> trees);
int restrict_files(int landlock_abi, std::span<const VisiblePath> visible);

// The version of Landlock that this kernel has, 0 without one.
int landlock_abi();

constexpr std::size_t most_visible_paths = 64;

}  // namespace muster::sandbox
