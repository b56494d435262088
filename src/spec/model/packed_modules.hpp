// Which weights of a model are held in 8 or 4 bits.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::spec {

// The weights of all linear layers but the output head, in the order of the model, less the skipped modules: each a
// pattern for the beginning of a path up to one of its dots, or the end of a path, as transformers' llm_int8_skip_modules
// are. The head stays as it is in any case. Refused: what is no pattern.
Result<std::vector<TensorId>> packed_weights(const ModelShape& shape, const std::vector<std::string>& skipped);

}  // namespace muster::spec
