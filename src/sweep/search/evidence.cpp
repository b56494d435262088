#include "sweep/search/evidence.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "sweep/search/subsample.hpp"

namespace muster::sweep {
namespace {

constexpr std::size_t most_trials = 300;

// The number that about this share of them lies below.
double share_below(std::vector<double> numbers, double share) {
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(numbers.size() - 1) + 0.5);
  std::ranges::nth_element(numbers, numbers.begin() + place);
  return numbers[static_cast<std::size_t>(place)];
}

void give_failures_the_worst_score(std::vector<Trial>& trials) {
  std::optional<double> worst;
  for (const Trial& trial : trials)
    if (!trial.failed) worst = std::min(worst.value_or(trial.score), trial.score);
  for (Trial& trial : trials)
    if (trial.failed) trial.score = worst.value_or(0);
}

void thin(std::vector<Trial>& trials) {
  if (trials.size() <= most_trials) return;
  for (std::size_t i = 0; i < most_trials; ++i) trials[i] = trials[kept_place(i, trials.size(), most_trials)];
  trials.resize(most_trials);
}

}  // namespace

std::vector<double> standardized(std::vector<double> numbers) {
  const auto count = static_cast<double>(numbers.size());
  double mean = 0, square = 0;
  for (const double number : numbers) mean += number / count;
  for (const double number : numbers) square += (number - mean) * (number - mean) / count;
  const double deviation = square > 0 ? std::sqrt(square) : 1;
  for (double& number : numbers) number = (number - mean) / deviation;
  return numbers;
}

Evidence gather(const Space& space, Goal goal, const History& history) {
  Evidence evidence;
  for (const Observation& observation : history.finished) {
    auto point = point_of(space, observation.settings);
    if (!point) continue;
    const bool failed = observation.failed();
    evidence.finished.push_back(
        {std::move(*point), failed ? 0 : oriented(goal, *observation.score), observation.cost_seconds, failed});
    evidence.succeeded = evidence.succeeded || !failed;
  }
  give_failures_the_worst_score(evidence.finished);
  std::ranges::sort(evidence.finished, {},
                    [](const Trial& trial) { return std::tuple(trial.failed, -trial.score, trial.point, trial.cost); });
  for (const Settings& settings : history.running)
    if (auto point = point_of(space, settings)) evidence.running.push_back(std::move(*point));
  std::ranges::sort(evidence.running);
  evidence.begun = evidence.finished.size() + evidence.running.size();
  for (const Trial& trial : evidence.finished) evidence.seconds += trial.cost;
  thin(evidence.finished);
  return evidence;
}

std::vector<const Trial*> pareto(const Evidence& evidence) {
  std::vector<const Trial*> order;
  for (const Trial& trial : evidence.finished)
    if (!trial.failed) order.push_back(&trial);
  std::ranges::stable_sort(order, {}, [](const Trial* trial) { return std::pair(trial->cost, -trial->score); });
  std::vector<const Trial*> front;
  for (const Trial* trial : order)
    if (front.empty() || trial->score > front.back()->score) front.push_back(trial);
  return front;
}

std::vector<double> shaped_scores(const Evidence& evidence) {
  std::vector<double> scores;
  for (const Trial& trial : evidence.finished) scores.push_back(trial.score);
  const double middle = share_below(scores, 0.5);
  double width = share_below(scores, 0.9) - middle;
  if (!(width > 0)) width = middle - share_below(scores, 0.1);
  if (!(width > 0)) width = 1;
  for (double& score : scores) {
    score = (score - middle) / width;
    if (score < -1) score = -1 - std::log(-score);
  }
  return standardized(std::move(scores));
}

std::vector<double> features(const Space& space, const Point& point) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < point.size(); ++i)
    if (varies(space.parameters[i])) numbers.push_back((point[i] + 1) / 2);
  return numbers;
}

Ordered ordered_features(const Space& space) {
  Ordered ordered;
  for (const Parameter& parameter : space.parameters)
    if (varies(parameter)) ordered.push_back(is_ordered(parameter) ? 1 : 0);
  return ordered;
}

}  // namespace muster::sweep
