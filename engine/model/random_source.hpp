// Untrained weights: what `model.init: random` computes with, and what adapters begin with. Each number follows from the seed, the tensor's
// name and its place, so that every rank and every slice sees the same model.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "checkpoint/tensor_source.hpp"
#include "model/parameter.hpp"
#include "spec/model/model_config.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::model {

// Norms' weights are 1, biases 0; all other numbers are spread evenly with a standard deviation of 0.02.
std::unique_ptr<checkpoint::TensorSource> make_random_source(const spec::ModelConfig& config, std::uint64_t seed);

// The source, and the head for scores of a model with this shape, of which the source has none: as make_random_source
// has it.
std::unique_ptr<checkpoint::TensorSource> with_fresh_head(std::unique_ptr<checkpoint::TensorSource> source,
                                                          const spec::ModelShape& shape, std::uint64_t seed);

// By the names of magnitudes: float32 [rows], on the host.
using RowLengths = std::map<std::string, at::Tensor, std::less<>>;

// What a model's adapters begin with, as PEFT has it: B is 0, A is spread evenly between -1/√inputs and 1/√inputs, and
// magnitudes are the lengths of the rows that they scale.
std::unique_ptr<checkpoint::TensorSource> make_fresh_adapters(std::span<const Parameter> parameters,
                                                              RowLengths magnitudes, std::uint64_t seed);

}  // namespace muster::model
