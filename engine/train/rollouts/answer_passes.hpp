// From the answers of one update to the passes of a rank.
#pragma once

#include <span>
#include <vector>

#include "data/batch_loader.hpp"
#include "data/step_share.hpp"
#include "train/rollouts/rollout.hpp"

namespace muster::train {

// One update's share of a round.
struct AnswerBatch {
  std::span<const Rollout> answers;                          // of the whole round
  std::span<const std::uint32_t> numbers;                    // which of them
  const std::vector<std::vector<std::int32_t>>& prompts;     // tokens of every prompt of the data
  bool masks_cut = false;                                    // answers without an end count for nothing
};

// Its prompt and tokens as one more sequence of the pass; copies: answers like it.
void add_answer(data::MicroBatch& pass, const Rollout& answer, std::int64_t copies,
                const std::vector<std::int32_t>& prompt);

// passes, rows and totals. Answers that nothing is learnt from are in no pass, though they count in the totals; equal ones
// are computed once. What is computed follows from the answers alone, not from ranks.
void fill_passes(data::LoadedStep& step, const AnswerBatch& batch, const data::RankPlace& place);

}  // namespace muster::train
