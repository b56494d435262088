// Attention as transformers and PyTorch allocate it, kernel by kernel.
#pragma once

#include "plan/eager_tape.hpp"
#include "plan/step_moments.hpp"

namespace muster::plan {

// query, key and value: of all heads, keys and values not repeated. The kernel is the one that SDPA takes for the type
// that is computed in, or attn_implementation="eager".
Tensor attend(EagerTape& tape, const StepRequest& request, const Tensor& query, const Tensor& key, const Tensor& value);

}  // namespace muster::plan
