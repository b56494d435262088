// What sampled answers earn: each rank judges a share of them, beside whatever else it computes.
#pragma once

#include <string_view>
#include <vector>

#include "chat/model_text.hpp"
#include "spec/policy_options.hpp"
#include "train/rollouts/background_judge.hpp"
#include "train/rollouts/prompts.hpp"
#include "train/trainer_context.hpp"

namespace muster::train {

class AnswerJudge {
 public:
  // All references must outlive it.
  AnswerJudge(const TrainerContext& context, const chat::ModelText& text, const spec::PolicyOptions& policy,
              const Prompts& prompts, reward::Judge judge, std::stop_source stop)
      : context_(context), text_(text), policy_(policy), prompts_(prompts), judge_(std::move(judge), std::move(stop)) {}

  // As metrics and files call what judges.
  const std::vector<std::string_view>& names() const { return judge_.names(); }
  // Those of the same answers on every rank, which must stay until finish(). That comes before the next start().
  void start(const std::vector<Rollout>& answers);
  // Waits; then all answers have what they earned. All ranks call it. An Error is every rank's.
  Result<void> finish(std::vector<Rollout>& answers);

 private:
  // Places of the answers that this rank judges: the groups to the prompts that it would draw.
  std::vector<std::size_t> own_share(const std::vector<Rollout>& answers) const;

  const TrainerContext& context_;
  const chat::ModelText& text_;
  const spec::PolicyOptions& policy_;
  const Prompts& prompts_;
  BackgroundJudge judge_;
};

}  // namespace muster::train
