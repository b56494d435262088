#include "train/run_position.hpp"

#include <algorithm>
#include <bit>
#include <string_view>

#include "json/fields.hpp"

namespace muster::train {
namespace {

constexpr std::size_t steps_in_a_checkpoint = 512;  // whose numbers it holds

// 0 where there is none.
double value_of(const checkpoint::TrainingState& saved, std::string_view name) {
  const auto found = std::ranges::find(saved.more, name, &checkpoint::NamedNumber::name);
  return found == saved.more.end() ? 0 : found->value;
}

std::int64_t number_of(const checkpoint::TrainingState& saved, std::string_view name) {
  return static_cast<std::int64_t>(value_of(saved, name));
}

}  // namespace

void RunPosition::remember(const wire::StepRecord& done) {
  last_steps.push_back({done});
  if (last_steps.size() > steps_in_a_checkpoint) last_steps.pop_front();
}

RunPosition position_of(const checkpoint::TrainingState& saved, const wire::TrainTask& task) {
  RunPosition position;
  position.step = position.updates = saved.step;
  position.cursor = {saved.cursor.epoch, saved.cursor.unit, number_of(saved, "round"), number_of(saved, "update"),
                     {number_of(saved, "rewards"), value_of(saved, "rewards_mean"), value_of(saved, "rewards_squares")}};
  const auto weight = std::ranges::find(saved.more, "divergence_weight", &checkpoint::NamedNumber::name);
  if (weight != saved.more.end()) position.cursor.divergence_weight = weight->value;
  position.last_steps.assign(saved.last_steps.begin(), saved.last_steps.end());
  position.updates -= number_of(saved, "skipped");
  // The evaluation of the last step is repeated: a run that is finished shows what it has learnt.
  const checkpoint::StepNumbers* last = saved.last_steps.empty() ? nullptr : &saved.last_steps.back();
  if (last && last->step == saved.step && saved.step < task.steps && (last->eval_loss || last->exact_match || last->eval_metrics))
    position.evaluated = saved.step;
  if (saved.loss_scale)
    position.scaler = optimizer::LossScaler(
        {saved.loss_scale->scale, saved.loss_scale->good_steps, saved.step - position.updates});
  return position;
}

checkpoint::TrainingState state_of(const RunPosition& position, const wire::TrainTask& task, std::uint64_t seed) {
  checkpoint::TrainingState state;
  state.step = position.step;
  state.optimizer = to_json(task.optimizer.kind).get<std::string>();
  state.schedule = {{"peak", task.optimizer.rate},
                    {"warmup_steps", static_cast<double>(task.optimizer.warmup_steps)},
                    {"steps", static_cast<double>(task.steps)}};
  if (scales_loss(task))
    state.loss_scale = checkpoint::LossScale{position.scaler.scale(), position.scaler.state().clean_steps};
  state.seed = seed;
  state.cursor = {position.cursor.epoch, position.cursor.unit};
  state.settings_hash = task.identity;
  state.muster_version = MUSTER_VERSION;
  state.more = {{"skipped", static_cast<double>(position.step - position.updates)}};
  if (task.policy) {
    state.more.push_back({"round", static_cast<double>(position.cursor.round)});
    state.more.push_back({"update", static_cast<double>(position.cursor.update)});
    const data::RewardsSeen& seen = position.cursor.seen;
    state.more.push_back({"rewards", static_cast<double>(seen.count)});
    state.more.push_back({"rewards_mean", seen.mean});
    state.more.push_back({"rewards_squares", seen.squares});
    if (position.cursor.divergence_weight)
      state.more.push_back({"divergence_weight", *position.cursor.divergence_weight});
  }
  state.last_steps = {position.last_steps.begin(), position.last_steps.end()};
  return state;
}

void take_from_first_rank(RunPosition& position, communicate::Communicator& ranks, at::Device device) {
  const optimizer::LossScaler::State& scaler = position.scaler.state();
  constexpr std::int64_t never = -1;
  const data::RewardsSeen& seen = position.cursor.seen;
  at::Tensor whole =
      at::tensor({position.step, position.updates, position.cursor.epoch, position.cursor.unit, scaler.clean_steps,
                  scaler.skipped, position.evaluated.value_or(never), position.cursor.round, position.cursor.update, seen.count,
                  std::bit_cast<std::int64_t>(seen.mean), std::bit_cast<std::int64_t>(seen.squares),
                  std::int64_t{position.cursor.divergence_weight ? 1 : 0},
                  std::bit_cast<std::int64_t>(position.cursor.divergence_weight.value_or(0))},
                 at::TensorOptions().dtype(at::kLong))
          .to(device);
  // A power of two, which float32 holds exactly.
  at::Tensor scale = at::full({1}, scaler.scale, at::TensorOptions().dtype(at::kFloat).device(device));
  ranks.broadcast(whole, 0);
  ranks.broadcast(scale, 0);
  const at::Tensor host = whole.cpu();
  const auto* number = host.const_data_ptr<std::int64_t>();
  position.step = number[0];
  position.updates = number[1];
  position.cursor = {number[2], number[3], number[7], number[8],
                     {number[9], std::bit_cast<double>(number[10]), std::bit_cast<double>(number[11])}};
  if (number[12] != 0) position.cursor.divergence_weight = std::bit_cast<double>(number[13]);
  position.scaler = optimizer::LossScaler({scale.item<double>(), number[4], number[5]});
  position.evaluated = number[6] == never ? std::nullopt : std::optional(number[6]);
}

}  // namespace muster::train
