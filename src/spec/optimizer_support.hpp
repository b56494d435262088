// Which optimizers this version of muster trains with. The others can be planned for.
#pragma once

#include "spec/values.hpp"

namespace muster::spec {

constexpr bool is_supported(OptimizerKind kind) { return kind != OptimizerKind::adamw_8bit; }

}  // namespace muster::spec
