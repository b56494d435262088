#include "job/generate/generate_options.hpp"

#include <array>

#include "planning/plan_options.hpp"
#include "spec/codec.hpp"

namespace muster::job {
namespace {

using Form = GenerateSetting::Form;

constexpr std::array generate_table{
    GenerateSetting{"--max-new-tokens", "generation.max_new_tokens"},
    GenerateSetting{"--temperature", "generation.temperature"},
    GenerateSetting{"--top-k", "generation.top_k"},
    GenerateSetting{"--top-p", "generation.top_p"},
    GenerateSetting{"--min-p", "generation.min_p"},
    GenerateSetting{"--repetition-penalty", "generation.repetition_penalty"},
    GenerateSetting{"--stop", "generation.stop", Form::texts},
    GenerateSetting{"--stop-tokens", "generation.stop_tokens"},
    GenerateSetting{"--samples", "generation.samples"},
    GenerateSetting{"--batch-size", "generation.batch_size"},
    GenerateSetting{"--device-map", "model.device_map"},
    GenerateSetting{"--max-memory", "model.max_memory", Form::limits},
};

}  // namespace

std::span<const GenerateSetting> generate_settings() { return generate_table; }

Result<std::string> setting_text(const GenerateSetting& setting, const std::vector<std::string>& words) {
  if (setting.form == Form::texts) return spec::write(spec::ExactTexts{words});
  if (setting.form == Form::limits && !words.back().starts_with('{')) return planning::limits_as_table(words.back());
  return words.back();
}

}  // namespace muster::job
