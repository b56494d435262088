// Numbers of 8 bits with an exponent.
#pragma once

#include <array>

#include "spec/element_type.hpp"

namespace muster::checkpoint {

// What each byte stands for. type: float8 or float8_e5m2.
const std::array<float, 256>& float8_values(spec::ElementType type);

}  // namespace muster::checkpoint
