// Steps over answers that the model samples while it is trained.
//
// Note [Rounds]
// A round takes the next prompts of the data's order, samples a group of answers to each with the weights as they are, and
// judges them: each rank its share of the prompts, so that a prompt is read once; with grpo.max_draws, again with other
// prompts until the round is full of groups that teach something. Then every rank has all answers, from
// which advantages, batches and metrics follow in the same way everywhere, whatever the number of ranks. What was judged is
// written down before anything is trained on it. So a run is its checkpoints and these files: resumed at the beginning of a
// round it samples the same answers again (where sums are exact it reads them), in the middle of one it reads them.
//
// Note [Off by one]
// With training.off_by=1 a round's answers are drawn when the round before it begins: by the weights that the training on that
// one begins with, whatever runs at the same time as what. The first round is drawn by the weights it is trained on. So two rounds
// are there when one is trained on, and both are written down before that; a round that was drawn by weights that are gone is read.
// Answers are drawn even for a round after the last step, so that a run may go on to more steps with the same bits.
//
// The next round's answers are judged while the present one is trained on, and while the one after is drawn (Note
// [Judged beside]). They are written down twice: as they were drawn, before anything is trained on that moves the weights
// on, and with what they earned, before anything is trained on them. Killed in between, a run reads them and has them
// judged again, which changes nothing, as nothing has learnt from the first judgement.
#pragma once

#include "train/step_source.hpp"
#include "train/trained_model.hpp"

namespace muster::train {

// task.data is a file of questions. All must outlive it. Refused: prompts that leave no room for an answer, a judge that
// cannot be made. critic: what says what is expected of answers; nullptr: a head of the policy does, or nothing.
Result<std::unique_ptr<StepSource>> make_rollout_steps(const wire::TrainTask& task, const TrainerContext& context,
                                                       TrainedModel& trained, TrainedModel* critic);

}  // namespace muster::train
