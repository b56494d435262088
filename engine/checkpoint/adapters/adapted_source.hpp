// A model's tensors and those of adapters for it as one source.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_source.hpp"

namespace muster::checkpoint {

// What a tensor of the adapter with this number is called beside those of the others: as it is for the first one.
std::string adapted_name(std::size_t adapter, std::string_view tensor);

// The base's tensors under their own names, the adapters' by adapted_name. What the first adapter has as a whole, under
// the base's name for it, takes its place.
std::unique_ptr<TensorSource> with_adapters(std::unique_ptr<TensorSource> base,
                                            std::vector<std::unique_ptr<TensorSource>> adapters);

}  // namespace muster::checkpoint
