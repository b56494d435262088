#include "train/rollouts/advantages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "spec/objective_metrics.hpp"

namespace muster::train {
namespace {

struct Spread {
  std::int64_t count = 0;
  double mean = 0;
  double deviation = 0;  // of a sample: divided by one less than the count
};

Spread spread_of(const std::vector<double>& values) {
  Spread found{std::ssize(values)};
  if (values.empty()) return found;
  for (const double value : values) found.mean += value;
  found.mean /= static_cast<double>(values.size());
  if (values.size() < 2) return found;
  double squares = 0;
  for (const double value : values) squares += (value - found.mean) * (value - found.mean);
  found.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return found;
}

std::vector<double> rewards_of(std::span<const Rollout> answers) {
  std::vector<double> rewards;
  for (const Rollout& answer : answers)
    if (answer.reward) rewards.push_back(*answer.reward);
  return rewards;
}

// Less what the answer is likelier than by the reference, where rewards and not losses hold the policy to it.
double penalized(const Rollout& answer, const spec::PolicyOptions& options) {
  double reward = *answer.reward;
  if (!options.leave_one_out) return reward;
  double divergence = 0;
  for (std::size_t i = 0; i < answer.reference.size(); ++i)
    divergence += static_cast<double>(answer.log_probabilities[i]) - static_cast<double>(answer.reference[i]);
  return reward - options.beta * divergence;
}

std::vector<double> penalized_rewards(std::span<const Rollout> answers, const spec::PolicyOptions& options) {
  std::vector<double> rewards;
  for (const Rollout& answer : answers)
    if (answer.reward) rewards.push_back(penalized(answer, options));
  return rewards;
}

bool teaches(std::span<const Rollout> group) {
  return std::ranges::any_of(group, [](const Rollout& answer) { return answer.advantage != 0; });
}

bool all_equal(const std::vector<double>& values) {
  return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
}

}  // namespace

data::RewardsSeen rewards_after(data::RewardsSeen seen, const std::vector<Rollout>& answers) {
  for (const double reward : rewards_of(answers)) {
    const double distance = reward - seen.mean;
    seen.mean += distance / static_cast<double>(++seen.count);
    seen.squares += distance * (reward - seen.mean);
  }
  return seen;
}

void give_advantages(std::vector<Rollout>& answers, const spec::PolicyOptions& options, const data::RewardsSeen& seen) {
  const data::RewardsSeen so_far = rewards_after(seen, answers);
  const double running = so_far.count < 2 ? 0 : std::sqrt(so_far.squares / static_cast<double>(so_far.count - 1));
  const double of_all = spread_of(penalized_rewards(answers, options)).deviation;
  for (std::size_t begin = 0; begin < answers.size(); begin += static_cast<std::size_t>(options.group)) {
    const std::span group(answers.data() + begin, static_cast<std::size_t>(options.group));
    const std::vector<double> rewards = penalized_rewards(group, options);
    const Spread spread = spread_of(rewards);
    // Equal rewards have a mean that may differ from them by a rounding.
    const bool tells_nothing = spread.count < 2 || all_equal(rewards);
    double scale = 1;
    if (options.leave_one_out && spread.count > 1)
      scale = static_cast<double>(spread.count) / static_cast<double>(spread.count - 1);
    if (options.scale == spec::RewardScale::group) scale /= spread.deviation + options.scale_floor;
    if (options.scale == spec::RewardScale::batch) scale /= of_all + options.scale_floor;
    if (options.scale == spec::RewardScale::running) scale /= running + options.scale_floor;
    for (Rollout& answer : group)
      answer.advantage = answer.reward && !tells_nothing ? (penalized(answer, options) - spread.mean) * scale : 0;
  }
}

std::int64_t teaching_groups(const std::vector<Rollout>& answers, std::int64_t group) {
  std::int64_t count = 0;
  for (std::size_t begin = 0; begin < answers.size(); begin += static_cast<std::size_t>(group))
    if (teaches(std::span(answers).subspan(begin, static_cast<std::size_t>(group)))) ++count;
  return count;
}

std::vector<std::uint32_t> trained_answers(const std::vector<Rollout>& answers, const spec::PolicyOptions& options,
                                           std::int64_t groups) {
  std::vector<std::uint32_t> all, chosen;
  const auto size = static_cast<std::uint32_t>(options.group);
  for (std::uint32_t begin = 0; begin < answers.size(); begin += size) {
    const bool is_chosen =
        teaches(std::span(answers).subspan(begin, size)) && std::ssize(chosen) < groups * options.group;
    for (std::uint32_t i = begin; i < begin + size; ++i) {
      all.push_back(i);
      if (is_chosen) chosen.push_back(i);
    }
  }
  return options.draws == 1 || chosen.empty() ? all : chosen;
}

std::vector<wire::NamedNumber> metrics_of(const Round& round, spec::Algorithm algorithm, std::int64_t group,
                                          std::int64_t prompt_tokens,
                                          const std::vector<std::string_view>& functions) {
  std::vector<double> lengths, ended_lengths;
  std::int64_t tokens = prompt_tokens;
  for (const Rollout& answer : round.answers) {
    lengths.push_back(static_cast<double>(answer.length()));
    if (answer.ended) ended_lengths.push_back(lengths.back());
    tokens += std::ssize(answer.tokens);
  }
  const std::vector<double> rewards = rewards_of(round.answers);
  double equal_groups = 0, groups = 0;
  for (std::size_t begin = 0; begin < round.answers.size(); begin += static_cast<std::size_t>(group)) {
    const auto of_group = rewards_of(std::span(round.answers).subspan(begin, static_cast<std::size_t>(group)));
    ++groups;
    if (of_group.empty() || all_equal(of_group)) ++equal_groups;
  }
  const auto count = static_cast<double>(round.answers.size());
  const Spread reward = spread_of(rewards);
  const auto number = static_cast<double>(rewards.size());
  const std::map<std::string_view, double> values{
      {"reward", reward.mean},
      {"reward_std", reward.deviation},
      {"frac_reward_zero_std", equal_groups / std::max(groups, 1.0)},
      {"completions/mean_length", spread_of(lengths).mean},
      {"completions/min_length", lengths.empty() ? 0 : std::ranges::min(lengths)},
      {"completions/max_length", lengths.empty() ? 0 : std::ranges::max(lengths)},
      {"completions/mean_terminated_length", spread_of(ended_lengths).mean},
      {"completions/clipped_ratio", 1 - static_cast<double>(ended_lengths.size()) / std::max(count, 1.0)},
      {"num_tokens", static_cast<double>(tokens)},
      {"unjudged", count - number}};
  std::vector<wire::NamedNumber> metrics;
  for (const std::string_view name : spec::metrics_of_round(algorithm))
    if (const auto found = values.find(name); found != values.end()) metrics.push_back({std::string(name), found->second});
  for (std::size_t part = 0; part < functions.size(); ++part) {
    std::vector<double> of_function;
    for (const Rollout& answer : round.answers)
      if (part < answer.parts.size() && answer.parts[part]) of_function.push_back(*answer.parts[part]);
    const Spread spread = spread_of(of_function);
    metrics.push_back({fmt::format("rewards/{}/mean", functions[part]), spread.mean});
    metrics.push_back({fmt::format("rewards/{}/std", functions[part]), spread.deviation});
  }
  return metrics;
}

}  // namespace muster::train
