// A critic with weights of its own, as the task of a run has it.
#pragma once

#include "chat/model_text.hpp"
#include "plan/plan.hpp"
#include "spec/run_spec.hpp"
#include "wire/train_task.hpp"

namespace muster::job {

// question.critic, where there is one. text: the policy's. Refused: one that reads other tokens, or too few of them.
Result<void> take_critic(wire::TrainTask& task, const spec::RunSpec& spec, const plan::Question& question,
                         const chat::ModelText& text);

// The policy's task as far as it says what a critic's files take.
wire::TrainTask files_of_critic(const wire::TrainTask& task);

}  // namespace muster::job
