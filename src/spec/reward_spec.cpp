#include "spec/reward_spec.hpp"

#include "spec/run_spec.hpp"

namespace muster::spec {

std::optional<RewardOptions> RunSpec::reward_options() const {
  if (!reward.functions) return std::nullopt;
  RewardOptions options;
  options.functions = *reward.functions;
  options.weights = reward.weights;
  options.unknown = reward.unknown;
  options.format = reward.format.value_or("");
  options.format_match = reward.format_match;
  options.length_margin = reward.length_margin;
  options.repetition_words = reward.repetition_words;
  options.program = reward.program.texts;
  options.program_seconds = reward.program_seconds;
  options.program_restarts = reward.program_restarts;
  options.program_batch = data_collection.reward_batch_size;
  options.code_scoring = reward.code_scoring;
  options.code_seconds = reward.code_seconds;
  options.code_at_once = reward.code_at_once;
  options.code_python = reward.code_python;
  options.scale = reward.scale;
  options.bias = reward.bias;
  options.clip = reward.clip;
  return options;
}

}  // namespace muster::spec
