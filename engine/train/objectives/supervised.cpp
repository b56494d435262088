#include "train/objectives/supervised.hpp"

#include <algorithm>
#include <array>

namespace muster::train {
namespace {

class Supervised final : public Objective {
 public:
  std::span<const std::string_view> metrics() const override {
    static constexpr std::array<std::string_view, 1> names{"loss"};
    return names;
  }
  std::int64_t normalizer(const data::StepTotals& totals) const override {
    return std::max<std::int64_t>(totals.trained_tokens, 1);
  }
  at::Tensor weigh(const TrainedRows& rows) const override {
    return at::ones({std::ssize(rows.batch.trained_rows)}, at::TensorOptions().dtype(at::kFloat).device(rows.device));
  }
  std::vector<at::Tensor> measure(const TrainedRows& rows) const override { return {rows.log_probabilities.neg()}; }
};

}  // namespace

std::unique_ptr<Objective> make_supervised() { return std::make_unique<Supervised>(); }

}  // namespace muster::train
