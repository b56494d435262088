// How a model fares in an environment: episodes of its own, which nothing is learnt from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/lockstep_sampler.hpp"
#include "train/rollouts/episodes.hpp"
#include "wire/step_record.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

// What plays; all must outlive an evaluation.
struct EpisodePlayers {
  const chat::ModelText& text;
  model::CausalModel& model;
  tensor::DeviceOps& ops;
  std::uint64_t seed = 0;
};

class EpisodeEvaluation {
 public:
  // questions: a file of what its rows open with (read_questions). Refused: one that leaves the model no room for an answer.
  static Result<std::unique_ptr<EpisodeEvaluation>> make(const wire::EpisodeEvaluations& evaluations, std::size_t index,
                                                         const std::string& questions, EpisodePlayers players);

  std::int64_t episodes() const { return episodes_; }
  // The mean over episodes whose reward is known, and the share that was solved, where that can be said. Each rank plays its
  // share, and all call it together; the same numbers on all of them, whatever their number. Every time the same random
  // numbers are drawn by.
  Result<std::vector<wire::NamedNumber>> play(communicate::Communicator& ranks, const std::function<void(std::int64_t)>& done);

 private:
  EpisodeEvaluation(const wire::EpisodeEvaluations& evaluations, std::size_t index, EpisodePlayers players);
  Result<void> measure_prompts();
  std::vector<generate::Request> requests_of(const communicate::Communicator& ranks) const;
  generate::SamplerOptions sampler_options(std::int64_t turn) const;

  std::string name_;
  spec::EnvironmentOptions options_;
  spec::EpisodeDraws draws_;
  std::int64_t episodes_;
  EpisodePlayers players_;
  LockstepSampler sampler_;
  std::vector<Question> questions_;
  std::int64_t longest_ = 0;  // of an episode, its prompt included
  std::unique_ptr<Episodes> player_;
};

}  // namespace muster::train
