// Whether a gradient takes the place of what is there or is added to it.
#pragma once

namespace muster::kernels {

enum class Accumulate { replace, add };

}  // namespace muster::kernels
