// Element by element.
#pragma once

#include <cstdint>

#include "kernels/scalar.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

// output[count] = first + second; output may be either of them.
void add(ThreadTeam& team, const void* first, const void* second, Scalar io, std::int64_t count, void* output);

// Rounds to the nearest, to even on ties.
void convert(ThreadTeam& team, const void* input, Scalar from, std::int64_t count, void* output, Scalar to);

}  // namespace muster::kernels
