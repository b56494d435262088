// A model's tensors and those of an adapter for it as one source.
#pragma once

#include <memory>

#include "checkpoint/tensor_source.hpp"

namespace muster::checkpoint {

// Where both have a tensor of a name, the adapter's counts: it was trained as a whole.
std::unique_ptr<TensorSource> with_adapter(std::unique_ptr<TensorSource> base, std::unique_ptr<TensorSource> adapter);

}  // namespace muster::checkpoint
