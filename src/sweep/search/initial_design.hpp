// Points that cover a space more evenly than random ones: where a search begins.
#pragma once

#include <cstdint>

#include "sweep/space.hpp"

namespace muster::sweep {

// The first is the centre. Any prefix of the sequence covers the space; there is a point for every index.
Point spread_point(const Space& space, std::uint64_t seed, std::uint64_t index);

}  // namespace muster::sweep
