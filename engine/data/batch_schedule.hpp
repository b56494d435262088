// Which units each optimizer step takes, and where in the data a run stands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.hpp"
#include "data/epoch_order.hpp"

namespace muster::data {

// Rewards so far, for a mean and a deviation of them all.
struct RewardsSeen {
  std::int64_t count = 0;
  double mean = 0;
  double squares = 0;  // sum of squared distances from the mean

  bool operator==(const RewardsSeen&) const = default;
};

// The next unit that a run takes; a checkpoint keeps it. unit is below the epoch's units, whenever it is given out.
struct BatchCursor {
  std::int64_t epoch = 0;
  std::int64_t unit = 0;
  std::int64_t round = 0;   // of answers that are sampled: the unit is the first of its prompts
  std::int64_t update = 0;  // the next one that is made with them
  RewardsSeen seen = {};    // before the round
  std::optional<double> divergence_weight = {};  // of the round, where it is adapted; absent: as in the settings

  bool operator==(const BatchCursor&) const = default;
};

using Unit = std::vector<std::uint32_t>;  // samples by number

// The units of one optimizer step, over all ranks.
struct StepUnits {
  BatchCursor begin;  // of the first of them
  BatchCursor end;    // where the next step begins
  std::vector<Unit> units;
  std::int64_t epoch_units = 0;  // of the whole epoch

  bool operator==(const StepUnits&) const = default;
};

class BatchSchedule {
 public:
  // lengths: of every sample, at least one. batch_size: units of a step, at least 1.
  BatchSchedule(std::vector<std::uint32_t> lengths, OrderSettings settings, std::int64_t batch_size);

  // The next batch_size units, or what is left of the epoch: no step reaches past its end.
  StepUnits next();
  BatchCursor cursor() const { return cursor_; }
  // Continues from there. A cursor past an epoch's last unit is the next epoch's beginning.
  void seek(BatchCursor cursor);

  std::int64_t units_in(std::int64_t epoch);
  std::int64_t steps_in(std::int64_t epoch);
  // Steps of the first epochs together.
  std::int64_t steps_of(std::int64_t epochs);
  // Where a run stands that has done this many steps from the beginning.
  BatchCursor cursor_after(std::int64_t steps);

 private:
  const EpochOrder& order_of(std::int64_t epoch);
  BatchCursor normal(BatchCursor cursor);

  std::vector<std::uint32_t> lengths_;
  OrderSettings settings_;
  std::int64_t batch_size_;
  BatchCursor cursor_;
  std::int64_t known_epoch_ = -1;  // whose order is kept; -1: none yet
  EpochOrder order_;
};

// Rows that a step computes, over all ranks.
std::int64_t computed_rows(const StepUnits& step, const Dataset& dataset);

// What a step has of everything, over all ranks: what sums are divided by.
struct StepTotals {
  std::int64_t units = 0;
  std::int64_t trained_tokens = 0;
  std::int64_t first_tokens = 0;  // of them, in the first sample of each unit: of pairs the chosen ones
  std::int64_t weighed_tokens = 0;  // of sampled answers those that anything is learnt from
  std::int64_t labelled = 0;      // units whose first sample has a label: of answers judged alone the desired ones
  std::int64_t reply_tokens = 0;  // of trained_tokens, what others say to answers

  bool operator==(const StepTotals&) const = default;
};
StepTotals totals_of(const StepUnits& step, const Dataset& dataset);
// The same of a whole dataset, so many samples of which make a unit.
StepTotals totals_of(const Dataset& dataset, std::int64_t together);

}  // namespace muster::data
