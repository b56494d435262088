// Llama 3's rotary scaling, which GGUF files carry as a tensor of factors, "rope_freqs.weight", and not in words.
#pragma once

#include <string_view>
#include <vector>

#include "spec/model/gguf_files.hpp"

namespace muster::spec {

// The factors that frequencies are divided by, one for each pair of a head's elements; none where the files have none.
Result<std::vector<float>> read_rope_factors(const GgufFiles& files);

// Finds the scaling that gives these factors and puts it into config's rope. Factors of another kind are refused.
Result<void> take_rope_factors(const std::vector<float>& factors, std::string_view source, ModelConfig& config);

}  // namespace muster::spec
