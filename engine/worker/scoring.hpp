// Scores given completions: takes a window of requests at a time, has those that begin alike computed together, and
// reports how likely each completion is.
#pragma once

#include <map>

#include "generate/generator.hpp"
#include "generate/score_groups.hpp"
#include "worker/loaded_model.hpp"
#include "worker/prompt_encoder.hpp"
#include "worker/work_progress.hpp"

namespace muster::worker {

class Scoring {
 public:
  // All must outlive this.
  Scoring(const wire::GenerateTask& task, Job& job, const LoadedModel& loaded, generate::StepRunner& runner,
          generate::BlockPool& pool);

  Result<void> run();

 private:
  Result<void> add(const std::vector<wire::Request>& window);
  void extend(const generate::GeneratedToken& token);
  void finish(std::int64_t index);

  const wire::GenerateTask& task_;
  Job& job_;
  bool shares_prompts_;
  PromptEncoder encoder_;
  generate::Generator generator_;
  std::map<std::int64_t, wire::ScoreResult> open_;
  WorkProgress progress_;
};

}  // namespace muster::worker
