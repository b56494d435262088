#include "train/optimizer_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bit_mix.hpp"
#include "train/abandon_pass.hpp"
#include "train/extremes.hpp"
#include "train/gradient_norm.hpp"
#include "train/memory_use.hpp"

namespace muster::train {
namespace {

model::Recompute recompute_of(spec::Recomputation asked) {
  if (asked == spec::Recomputation::full) return model::Recompute::blocks;
  return asked == spec::Recomputation::selective ? model::Recompute::cheap : model::Recompute::nothing;
}

// sums: those of all ranks, on the host.
std::vector<double> means_of(const at::Tensor& sums, std::int64_t normalizer) {
  std::vector<double> means;
  for (std::int64_t first = 0; first < sums.numel(); first += loss_parts) {
    const LossSum sum = loss_of(sums.narrow(0, first, loss_parts));
    means.push_back(sum.bad > 0 ? std::numeric_limits<double>::quiet_NaN() : sum.mean(normalizer));
  }
  return means;
}

}  // namespace

OptimizerStep::OptimizerStep(const wire::TrainTask& task, const TrainerContext& context, TrainedModel& trained,
                             std::unique_ptr<Objective> objective)
    : task_(task),
      context_(context),
      trained_(trained),
      passes_(std::move(objective), trained.model(), trained.ops(), task.pinned),
      pass_size_{task.micro_batch, task.recompute} {}

// Each epoch leaves out others.
DropoutOptions OptimizerStep::dropout_of(const data::LoadedStep& loaded) const {
  if (!task_.adapters) return {};
  const auto epoch = static_cast<std::uint64_t>(loaded.begin.epoch);
  return {task_.adapters->dropout, mix_bits(mix_bits(context_.seed + 1) + epoch)};
}

at::Tensor OptimizerStep::run_passes(const data::LoadedStep& loaded, double loss_scale, PlainGradients* plain) {
  parallel::Strategy& strategy = trained_.strategy();
  strategy.begin_step();
  const PassOptions options{loss_scale / static_cast<double>(objective().normalizer(loaded.totals)),
                            recompute_of(pass_size_.recompute), dropout_of(loaded), facts_};
  at::Tensor sums = passes_.no_sums();
  model::ParameterAccess& access = plain ? static_cast<model::ParameterAccess&>(*plain) : strategy;
  for (const data::MicroBatch& pass : loaded.passes) {
    if (!plain && &pass == &loaded.passes.back()) strategy.begin_last_pass();
    if (ran_out_ || pass.trained_rows.empty())
      stand_by(access, model::PassKind::learn, context_.device);
    else
      ran_out_ = !learn(pass, options, access, sums);
  }
  if (!plain) strategy.finish_gradients();
  return sums;
}

bool OptimizerStep::learn(const data::MicroBatch& pass, const PassOptions& options, model::ParameterAccess& access,
                          at::Tensor& sums) {
  return finishes([&] { sums += passes_.learn(pass, options, access); }, access);
}

bool OptimizerStep::finishes(const std::function<void()>& pass, model::ParameterAccess& access) const {
  try {
    pass();
    return true;
  } catch (const c10::OutOfMemoryError&) {
    // First release what the pass held.
  }
  abandon_pass(access, context_.device);
  return false;
}

// A rank that runs out of memory takes part in what is left of the step all the same.
double OptimizerStep::score_first(const data::LoadedStep& loaded) {
  model::ParameterAccess& home = trained_.model().home();
  at::Tensor sums = at::zeros({loss_parts}, at::TensorOptions().dtype(at::kLong).device(context_.device));
  const auto score = [&](const data::MicroBatch& pass) {
    home.begin_pass(model::PassKind::measure);
    sums += passes_.score(pass, facts_);
  };
  for (const data::MicroBatch& pass : loaded.scored) {
    if (ran_out_ || pass.trained_rows.empty())
      stand_by(home, model::PassKind::measure, context_.device);
    else
      ran_out_ = !finishes([&] { score(pass); }, home);
  }
  context_.ranks.all_reduce(sums);
  const LossSum sum = loss_of(sums);
  context_.ranks.check();
  return sum.bad > 0 ? std::numeric_limits<double>::quiet_NaN() : sum.mean(loaded.totals.units);
}

// Sums of metrics, whether a rank leaves and whether one ran out of memory, in one exchange.
StepOutcome OptimizerStep::compute(const data::LoadedStep& loaded, double loss_scale) {
  ran_out_ = false;
  facts_ = {loaded.totals, 0, loaded.is_fresh};
  if (objective().scores_first()) facts_.scored_mean = score_first(loaded);
  const at::Tensor sums = run_passes(loaded, loss_scale, nullptr);
  const std::int64_t leaving = sums.numel(), short_of_memory = leaving + 1;
  at::Tensor shared = at::zeros({sums.numel() + 2}, sums.options());
  shared.narrow(0, 0, sums.numel()).copy_(sums);
  if (context_.asked_to_leave()) shared[leaving] = 1;
  if (ran_out_) shared[short_of_memory] = 1;
  context_.ranks.all_reduce(shared);
  parallel::Strategy& strategy = trained_.strategy();
  const double squares = squared_norm(strategy, trained_.master_ops());
  const at::Tensor overflow = strategy.shards().front().gradient.overflow;
  const at::Tensor host = shared.cpu();
  // Before anything is done with numbers, some of which may never have arrived.
  context_.ranks.check();
  strategy.check_ranks();
  StepOutcome found;
  found.metrics = means_of(host.narrow(0, 0, sums.numel()), objective().normalizer(loaded.totals));
  for (const double extreme : extremes_over_ranks(passes_, context_.ranks)) found.metrics.push_back(extreme);
  found.leaves = host[leaving].item<std::int64_t>() > 0;
  found.ran_out = host[short_of_memory].item<std::int64_t>() > 0;
  found.norm = std::sqrt(squares) / loss_scale;
  found.finite = std::isfinite(found.norm) && std::isfinite(found.loss()) &&
                 (!overflow.defined() || overflow.item<std::int64_t>() == 0);
  return found;
}

Result<void> OptimizerStep::shrink(std::int64_t step) {
  if (!pass_size_.shrink())
    return Error{Error::Kind::refused,
                 fmt::format("step {}: one sequence at a time, with everything computed again, runs out of memory", step),
                 "shorten training.sequence_length, or spread the state over more GPUs (--strategy fsdp)"};
  if (ran_out_) context_.tell(wire::PassReduced{step, pass_size_.micro_batch, pass_size_.recompute});
  release_cached_memory(context_.device);
  return {};
}

void OptimizerStep::update(const StepOutcome& outcome, double rate, std::int64_t updates, double loss_scale) {
  const double clip = std::min(1.0, task_.optimizer.max_gradient_norm / (outcome.norm + 1e-6));
  trained_.optimizer().step(updates, rate, clip / loss_scale);
  trained_.strategy().publish();
}

// The passes once more, without the other ranks' gradients: a rank that finds something bad of its own is named.
Error OptimizerStep::explain_bad(const data::LoadedStep& loaded, const StepOutcome& outcome, double loss_scale,
                                 std::int64_t step) {
  PlainGradients gradients(trained_.strategy(), context_.device);
  const at::Tensor sums = run_passes(loaded, loss_scale, &gradients);
  const bool bad_loss = loss_of(sums.narrow(0, 0, loss_parts)).bad > 0;
  const BadTensor own = find_nonfinite(trained_.state(), trained_.strategy(), bad_loss, gradients);
  const auto found = agree_on_bad(own, context_.ranks, context_.device);
  const std::string where = found ? fmt::format("on rank {}: {}", found->rank, describe(found->bad, trained_.state()))
                                  : "on no rank by itself";
  return {Error::Kind::refused,
          fmt::format("step {}: the {} is not a number, {}", step,
                      std::isfinite(outcome.loss()) ? "gradient" : "loss", where),
          "lower training.learning_rate, check the data, or go on from an earlier checkpoint with other settings; a "
          "restart would only repeat it"};
}

}  // namespace muster::train
