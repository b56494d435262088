// Untrained weights: what `model.init: random` computes with. Each number follows from the seed, the tensor's
// name and its place, so that every rank and every slice sees the same model.
#pragma once

#include <atomic>
#include <memory>

#include "checkpoint/tensor_source.hpp"
#include "spec/model/model_config.hpp"

namespace muster::model {

// Norms' weights are 1, biases 0; all other numbers are spread evenly with a standard deviation of 0.02.
std::unique_ptr<checkpoint::TensorSource> make_random_source(const spec::ModelConfig& config, std::uint64_t seed);

}  // namespace muster::model
