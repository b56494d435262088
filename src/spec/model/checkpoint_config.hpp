// A checkpoint without a config.json: what its tensors say about the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/model/model_config.hpp"
#include "spec/model/tensor_check.hpp"

namespace muster::spec {

struct DerivedConfig {
  ModelConfig config;
  std::vector<std::string> notes;  // what the tensors do not say and was assumed
};

// Tensors named as transformers names those of a Llama-like model or of GPT-2, with or without the name of the inner
// model in front. Refused if names or sizes are ambiguous.
Result<DerivedConfig> config_from_tensors(const std::vector<NamedSizes>& tensors, std::string_view source);

}  // namespace muster::spec
