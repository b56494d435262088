// Points that cover a space more evenly than chance does: where a search begins.
#pragma once

#include <cstdint>

#include "sweep/space.hpp"

namespace muster::sweep {

// The first is the centre. Any beginning of the row covers the space; index beyond any count goes on.
Point spread_point(const Space& space, std::uint64_t seed, std::uint64_t index);

}  // namespace muster::sweep
