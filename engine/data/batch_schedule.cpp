#include "data/batch_schedule.hpp"

#include <algorithm>
#include <stdexcept>

namespace muster::data {

BatchSchedule::BatchSchedule(std::vector<std::uint32_t> lengths, OrderSettings settings, std::int64_t batch_size)
    : lengths_(std::move(lengths)), settings_(settings), batch_size_(batch_size) {
  if (lengths_.empty() || batch_size_ < 1 || settings_.together < 1) throw std::invalid_argument("a schedule needs samples and a batch size");
}

const EpochOrder& BatchSchedule::order_of(std::int64_t epoch) {
  if (epoch != known_epoch_) order_ = EpochOrder::make(lengths_, settings_, epoch);
  known_epoch_ = epoch;
  return order_;
}

BatchCursor BatchSchedule::normal(BatchCursor cursor) {
  if (cursor.unit < order_of(cursor.epoch).units()) return cursor;
  return {cursor.epoch + 1, 0};
}

StepUnits BatchSchedule::next() {
  StepUnits step;
  step.begin = cursor_ = normal(cursor_);
  const EpochOrder& order = order_of(cursor_.epoch);
  const std::int64_t end = std::min(cursor_.unit + batch_size_, order.units());
  for (; cursor_.unit < end; ++cursor_.unit) {
    const auto samples = order.unit(cursor_.unit);
    step.units.emplace_back(samples.begin(), samples.end());
  }
  if (end == order.units()) cursor_ = {cursor_.epoch + 1, 0};
  step.end = cursor_;
  step.epoch_units = order.units();
  return step;
}

void BatchSchedule::seek(BatchCursor cursor) { cursor_ = normal(cursor); }

std::int64_t BatchSchedule::units_in(std::int64_t epoch) {
  if (!settings_.packing) return static_cast<std::int64_t>(lengths_.size()) / settings_.together;
  return order_of(epoch).units();
}

std::int64_t BatchSchedule::steps_in(std::int64_t epoch) { return (units_in(epoch) + batch_size_ - 1) / batch_size_; }

std::int64_t BatchSchedule::steps_of(std::int64_t epochs) {
  if (!settings_.packing) return epochs * steps_in(0);
  std::int64_t steps = 0;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) steps += steps_in(epoch);
  return steps;
}

BatchCursor BatchSchedule::cursor_after(std::int64_t steps) {
  BatchCursor cursor;
  if (!settings_.packing) {
    cursor.epoch = steps / steps_in(0);
    steps %= steps_in(0);
  }
  for (; steps >= steps_in(cursor.epoch); ++cursor.epoch) steps -= steps_in(cursor.epoch);
  cursor.unit = steps * batch_size_;
  return cursor;
}

std::int64_t computed_rows(const StepUnits& step, const Dataset& dataset) {
  std::int64_t sum = 0;
  for (const Unit& unit : step.units)
    for (const std::uint32_t sample : unit) sum += dataset.length(sample) - 1;
  return sum;
}

StepTotals totals_of(const StepUnits& step, const Dataset& dataset) {
  StepTotals totals;
  totals.units = std::ssize(step.units);
  for (const Unit& unit : step.units) {
    for (const std::uint32_t sample : unit) {
      totals.trained_tokens += dataset.trained(sample);
      totals.reply_tokens += dataset.reply_tokens(sample);
    }
    totals.first_tokens += dataset.trained(unit.front());
    totals.labelled += dataset.label(unit.front()) != 0 ? 1 : 0;
  }
  return totals;
}

StepTotals totals_of(const Dataset& dataset, std::int64_t together) {
  StepTotals totals;
  totals.units = dataset.size() / together;
  totals.trained_tokens = dataset.counts().trained_tokens;
  totals.reply_tokens = dataset.counts().reply_tokens;
  for (std::int64_t i = 0; i < dataset.size(); i += together) {
    totals.first_tokens += dataset.trained(i);
    totals.labelled += dataset.label(i) != 0 ? 1 : 0;
  }
  return totals;
}

}  // namespace muster::data
