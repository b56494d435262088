// Untrained weights: what `model.init: random` computes with, and what adapters begin with. Each number follows from the seed, the tensor's
// name and its place, so that every rank and every slice sees the same model.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "checkpoint/tensor_source.hpp"
#include "model/parameter.hpp"
#include "spec/model/model_config.hpp"

namespace muster::model {

// Norms' weights are 1, biases 0; all other numbers are spread evenly with a standard deviation of 0.02.
std::unique_ptr<checkpoint::TensorSource> make_random_source(const spec::ModelConfig& config, std::uint64_t seed);

// What the trained parameters of a model with adapters begin with: B is 0, and A is spread evenly between -1/√inputs and
// 1/√inputs, as PEFT has it.
std::unique_ptr<checkpoint::TensorSource> make_fresh_adapters(std::span<const Parameter> parameters, std::uint64_t seed);

}  // namespace muster::model
