#include "optimizer/optimizer.hpp"

#include <stdexcept>

#include "optimizer/coded_adamw.hpp"

namespace muster::optimizer {
namespace {

OptimizerState zeros_beside(const parallel::Strategy& strategy, std::string name) {
  OptimizerState state{std::move(name), {}};
  for (const parallel::Shard& shard : strategy.shards()) state.of_shards.push_back(at::zeros_like(shard.master));
  return state;
}

class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerSettings& settings, tensor::TrainingOps& training, const parallel::Strategy& strategy)
      : settings_(settings),
        training_(training),
        strategy_(strategy),
        states_{zeros_beside(strategy, "first_moment"), zeros_beside(strategy, "second_moment")} {}

  std::span<const OptimizerState> states() const override { return states_; }

  void step(std::int64_t number, double rate, double gradient_scale) override {
    const tensor::AdamWStep step = adamw_step(settings_, number, rate, gradient_scale);
    const auto shards = strategy_.shards();
    for (std::size_t i = 0; i < shards.size(); ++i)
      if (shards[i].master.numel() > 0)
        training_.adamw(shards[i].master, states_[0].of_shards[i], states_[1].of_shards[i], shards[i].gradient, step);
  }

 private:
  OptimizerSettings settings_;
  tensor::TrainingOps& training_;
  const parallel::Strategy& strategy_;
  std::vector<OptimizerState> states_;
};

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerSettings& settings, tensor::TrainingOps& training, const parallel::Strategy& strategy)
      : settings_(settings), training_(training), strategy_(strategy) {
    if (has_momentum()) states_.push_back(zeros_beside(strategy, "momentum"));
  }

  std::span<const OptimizerState> states() const override { return states_; }

  void step(std::int64_t number, double rate, double gradient_scale) override {
    const tensor::SgdStep step{rate, has_momentum() ? settings_.momentum : 0, settings_.weight_decay, number == 1,
                               gradient_scale};
    const auto shards = strategy_.shards();
    for (std::size_t i = 0; i < shards.size(); ++i)
      if (shards[i].master.numel() > 0)
        training_.sgd(shards[i].master, has_momentum() ? states_[0].of_shards[i] : at::Tensor(), shards[i].gradient,
                      step);
  }

 private:
  bool has_momentum() const { return settings_.kind == spec::OptimizerKind::sgd_momentum; }

  OptimizerSettings settings_;
  tensor::TrainingOps& training_;
  const parallel::Strategy& strategy_;
  std::vector<OptimizerState> states_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, tensor::TrainingOps& training,
                                          const parallel::Strategy& strategy) {
  switch (settings.kind) {
    case spec::OptimizerKind::adamw:
    case spec::OptimizerKind::adamw_fused:
      return std::make_unique<AdamW>(settings, training, strategy);
    case spec::OptimizerKind::sgd:
    case spec::OptimizerKind::sgd_momentum:
      return std::make_unique<Sgd>(settings, training, strategy);
    case spec::OptimizerKind::adamw_8bit:
      return make_coded_adamw(settings, training, strategy);
  }
  throw std::invalid_argument("an optimizer that there is not");
}

}  // namespace muster::optimizer
