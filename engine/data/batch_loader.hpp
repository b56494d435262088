// Prepares the passes of coming steps while the present one is computed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/micro_batch.hpp"
#include "data/step_share.hpp"

namespace muster::data {

// One rank's part of one optimizer step.
struct LoadedStep {
  BatchCursor begin;
  BatchCursor end;                 // what a checkpoint after this step keeps
  StepTotals totals;               // of all ranks together
  double epochs = 0;               // that have been seen after it
  std::int64_t rows = 0;           // that all ranks compute together
  std::vector<MicroBatch> passes;  // as many as every other rank has, some possibly empty
  std::vector<MicroBatch> scored;  // passes without gradients that come first, likewise
  bool is_fresh = false;           // answers were drawn by the weights that are there now

  bool operator==(const LoadedStep&) const = default;
};

struct LoaderSettings {
  int threads = 0;     // 0: each step is made when it is asked for
  int read_ahead = 4;  // steps that are ready or in the making, at least 1
  bool second_apart = false;  // the second samples of units are scored (LoadedStep::scored), the first ones are trained on
};

class BatchLoader {
 public:
  // Begins where the schedule stands.
  BatchLoader(Dataset dataset, BatchSchedule schedule, RankPlace place, LoaderSettings settings);
  BatchLoader(BatchLoader&&) noexcept;
  BatchLoader& operator=(BatchLoader&&) noexcept;
  ~BatchLoader();

  // Steps in order, without end; waits until the next one is there. A bug in a thread is thrown here.
  LoadedStep next();

 private:
  class Line;
  std::unique_ptr<Line> line_;
};

}  // namespace muster::data
