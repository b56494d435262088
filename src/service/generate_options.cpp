#include "service/generate_options.hpp"

#include <array>

namespace muster::service {
namespace {

constexpr std::array setting_table{
    GenerateSetting{"--max-new-tokens", "generation.max_new_tokens"},
    GenerateSetting{"--temperature", "generation.temperature"},
    GenerateSetting{"--top-k", "generation.top_k"},
    GenerateSetting{"--top-p", "generation.top_p"},
    GenerateSetting{"--repetition-penalty", "generation.repetition_penalty"},
    GenerateSetting{"--samples", "generation.samples"},
    GenerateSetting{"--batch-size", "generation.batch_size"},
};

}  // namespace

std::span<const GenerateSetting> generate_settings() { return setting_table; }

}  // namespace muster::service
