#include "train/rollouts/answer_scoring.hpp"

#include <algorithm>

#include "train/lockstep_passes.hpp"
#include "train/memory_use.hpp"
#include "train/rollouts/answer_passes.hpp"

namespace muster::train {

void AnswerScoring::run(std::vector<Rollout>& answers, const std::vector<std::vector<std::int32_t>>& prompts,
                        model::ParameterAccess& home, const Pass& pass, const Take& take) {
  const auto score_some = [&](std::size_t first) {
    const std::size_t count = std::min(answers.size() - first, static_cast<std::size_t>(at_once_));
    data::MicroBatch batch;
    for (std::size_t i = first; i < first + count; ++i)
      add_answer(batch, answers[i], 1, prompts[static_cast<std::size_t>(answers[i].prompt)]);
    const at::Tensor host = pass(batch).cpu().contiguous();
    const auto* number = host.const_data_ptr<float>();
    for (std::size_t i = first; i < first + count; number += answers[i++].length())
      take(answers[i], {number, static_cast<std::size_t>(answers[i].length())});
  };
  const auto scored = [&] {
    LockstepPasses pace(home, context_.ranks, context_.device);
    return pace.run([&] {
      for (std::size_t first = 0; first < answers.size(); first += static_cast<std::size_t>(at_once_))
        pace.pass([&] { score_some(first); });
    });
  };
  while (!scored()) {
    TORCH_CHECK_WITH(OutOfMemoryError, at_once_ > 1, "one answer at a time runs out of memory");
    at_once_ = (at_once_ + 1) / 2;
    release_cached_memory(context_.device);
  }
}

}  // namespace muster::train
