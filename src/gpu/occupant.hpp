// Which processes make a GPU busy for everybody else. Pure.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "gpu/snapshot.hpp"

namespace muster::gpu {

// Note [Who makes a GPU busy]
// A process that computes on a GPU makes it busy: work that is put beside it runs out of memory or slows both down.
// Not counted:
//   - processes that only draw. Every workstation with a screen has some, and its GPU is to be used all the same;
//   - processes known to use less than 64 MiB, such as an idle server of the multi-process service. A CUDA context
//     alone takes more;
//   - processes that are exiting: what they use is about to be free;
//   - `own`: the process that asks and those that started it.
// A process whose memory is not known counts.
std::vector<const GpuProcess*> occupants(const Gpu& gpu, std::span<const pid_t> own);

// "alice (pid 4711, python train.py, 31.0 GiB) and 2 more"; the list is not empty.
std::string describe(std::span<const GpuProcess* const> occupants);

}  // namespace muster::gpu
