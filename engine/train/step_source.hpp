// Where the passes of a step come from.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "data/batch_loader.hpp"
#include "wire/step_record.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

// What a step is made of, and what is known of that before it is computed.
struct SourcedStep {
  data::LoadedStep loaded;
  std::vector<wire::NamedNumber> metrics = {};  // spec::metrics_of_round
  std::optional<double> sampling = {};          // seconds for new answers
  std::optional<double> judging = {};
};

class StepSource {
 public:
  virtual ~StepSource() = default;

  // The next step's; waits until they are there. steps_left: that the run has, this one among them. LoadedStep::end is
  // where the one after it begins. An Error is every rank's.
  virtual Result<SourcedStep> next(std::int64_t steps_left) = 0;
  // Where the run stands after that step, from which the next one continues. metrics: of its objective.
  virtual data::BatchCursor settle(const data::LoadedStep& step, std::span<const double>) { return step.end; }
  // Continues from there, with this many units in a pass of a rank.
  virtual void seek(data::BatchCursor cursor, std::int64_t micro_batch) = 0;
};

// Steps over prepared data. The first next() comes after a seek().
std::unique_ptr<StepSource> make_dataset_steps(data::Dataset dataset, const wire::TrainTask& task, std::uint64_t seed,
                                               int ranks, int rank);

}  // namespace muster::train
