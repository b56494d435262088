// Where the passes of a step come from.
#pragma once

#include <memory>

#include "data/batch_loader.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

class StepSource {
 public:
  virtual ~StepSource() = default;

  // The next step's; waits until they are there. LoadedStep::end is where the one after it begins.
  virtual data::LoadedStep next() = 0;
  // Continues from there, with this many units in a pass of a rank.
  virtual void seek(data::BatchCursor cursor, std::int64_t micro_batch) = 0;
};

// Steps over prepared data. The first next() comes after a seek().
std::unique_ptr<StepSource> make_dataset_steps(data::Dataset dataset, const wire::TrainTask& task, std::uint64_t seed,
                                               int ranks, int rank);

}  // namespace muster::train
