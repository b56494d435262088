#include "train/objectives/combined.hpp"

#include <algorithm>

#include "spec/objective_metrics.hpp"

namespace muster::train {
namespace {

// Each part has a mean over its own tokens of the whole step, so that terms are divided by two whole numbers.
class Combined final : public Objective {
 public:
  explicit Combined(const spec::CombinedOptions& options) : options_(options), names_{"loss"} {
    for (const std::string_view name : spec::metrics_of_combined()) names_.push_back(name);
  }

  std::span<const std::string_view> metrics() const override { return names_; }
  std::int64_t normalizer(const data::StepTotals& totals) const override {
    return std::max<std::int64_t>(totals.trained_tokens, 1);
  }
  at::Tensor weigh(const TrainedRows& rows) const override {
    return by_part(rows, options_.answers * share(rows, false), options_.replies * share(rows, true));
  }
  std::vector<at::Tensor> measure(const TrainedRows& rows) const override {
    const at::Tensor losses = rows.log_probabilities.neg();
    return {losses * weigh(rows), losses * by_part(rows, share(rows, false), 0), losses * by_part(rows, 0, share(rows, true))};
  }

 private:
  // What makes a sum over all trained tokens, divided by their number, the mean over a part of them.
  double share(const TrainedRows& rows, bool of_replies) const {
    const data::StepTotals& totals = rows.step.totals;
    const std::int64_t part = of_replies ? totals.reply_tokens : totals.trained_tokens - totals.reply_tokens;
    return static_cast<double>(normalizer(totals)) / static_cast<double>(std::max<std::int64_t>(part, 1));
  }

  // float32 [trained rows] on the device.
  static at::Tensor by_part(const TrainedRows& rows, double answers, double replies) {
    std::vector<float> values(rows.batch.trained_rows.size(), static_cast<float>(answers));
    for (const std::int64_t row : rows.batch.replies) values[static_cast<std::size_t>(row)] = static_cast<float>(replies);
    return at::tensor(values, at::kFloat).to(rows.device);
  }

  spec::CombinedOptions options_;
  std::vector<std::string_view> names_;
};

}  // namespace

std::unique_ptr<Objective> make_combined(const spec::CombinedOptions& options) {
  return std::make_unique<Combined>(options);
}

}  // namespace muster::train
