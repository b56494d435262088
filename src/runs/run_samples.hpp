// What a run's model answered while it was trained by rewards: muster runs show --samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "store/run_folder.hpp"

namespace muster::runs {

struct SampledAnswer {
  std::string answer;
  std::optional<double> reward;  // absent: nothing could judge it
  double advantage = 0;
  bool ended = false;
};

struct SampledPrompt {
  std::string prompt;
  std::vector<SampledAnswer> answers;
};

struct SampledRound {
  std::int64_t round = 0;  // from 1
  std::int64_t answers = 0;
  std::optional<double> reward;  // the mean
  bool is_judged = true;         // else the answers wait for their rewards
  std::vector<SampledPrompt> prompts;
};

// round: absent: the newest that is judged, if any is. Refused: a run without sampled answers, a round that it has not.
Result<SampledRound> read_samples(const store::RunFolder& run, std::optional<std::int64_t> round);

// The first prompts, each with its answers, the best first.
std::string samples_text(const SampledRound& round, std::size_t prompts);
std::string samples_json(const SampledRound& round, std::size_t prompts);

}  // namespace muster::runs
