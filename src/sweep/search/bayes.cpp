#include "sweep/search/bayes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sweep/search/cost_model.hpp"
#include "sweep/search/evidence.hpp"
#include "sweep/search/normal_curve.hpp"
#include "sweep/search/score_model.hpp"
#include "sweep/search/initial_design.hpp"

namespace muster::sweep {
namespace {

std::size_t first_trials(const SweepSpec& spec) {
  if (spec.bayes.first_trials) return static_cast<std::size_t>(*spec.bayes.first_trials);
  const auto dimensions = static_cast<std::size_t>(std::ranges::count_if(spec.space.parameters, varies));
  return std::clamp<std::size_t>(dimensions + 2, 4, 12);
}

// How long trials took, in sequence. Those that run now show how many run side by side.
double seconds_used(const Evidence& evidence) {
  return evidence.seconds / static_cast<double>(evidence.running.size() + 1);
}

// How much cost counts: fully at first, when much can be learned, and not at all at the end, when only the best
// result matters.
double cost_weight(const SweepSpec& spec, const Evidence& evidence) {
  if (spec.bayes.cost_weight) return *spec.bayes.cost_weight;
  double used = 0;
  if (spec.limits.trials) used = static_cast<double>(evidence.begun) / static_cast<double>(*spec.limits.trials);
  if (spec.limits.seconds) used = std::max(used, seconds_used(evidence) / *spec.limits.seconds);
  const double most = spec.limits.seconds ? 1.0 : 0.5;
  return most * std::clamp(1 - used, 0.0, 1.0);
}

// The logarithm of what a trial may take: no longer than is allowed, or than the sweep has left.
double most_log_cost(const SweepSpec& spec, const Evidence& evidence) {
  double most = std::numeric_limits<double>::infinity();
  if (spec.limits.trial_seconds) most = *spec.limits.trial_seconds;
  if (spec.limits.seconds) most = std::min(most, *spec.limits.seconds - seconds_used(evidence));
  return std::log(std::max(most, 1e-3));
}

struct Rated {
  Point point;
  double worth = 0;     // the logarithm of the expected improvement, less a deduction for its cost
  double log_cost = 0;  // expected
};

class Search {
 public:
  Search(const SweepSpec& spec, const Evidence& evidence, const TriedSettings& tried)
      : spec_(spec),
        evidence_(evidence),
        tried_(tried),
        chance_(spec.seed, evidence.begun + 1),
        score_(spec.space, evidence),
        cost_(spec.space, evidence),
        weight_(cost_weight(spec, evidence)),
        most_log_cost_(most_log_cost(spec, evidence)) {}

  std::optional<Suggestion> best() {
    std::vector<Rated> rated = rate(first_look());
    std::vector<Rated> leaders(rated.begin(),
                               rated.begin() + static_cast<std::ptrdiff_t>(std::min(leader_count, rated.size())));
    double reach = 0.3;
    for (int round = 0; round < rounds; ++round, reach *= 0.5) improve(leaders, reach);
    rated.insert(rated.end(), leaders.begin(), leaders.end());
    std::ranges::stable_sort(rated, std::ranges::greater{}, &Rated::worth);
    for (const Rated& one : rated)
      if (Settings settings = settings_at(spec_.space, one.point); !tried_.contains(settings))
        return Suggestion{std::move(settings), std::exp(one.log_cost)};
    return std::nullopt;
  }

 private:
  static constexpr std::size_t wide_count = 256, near_count = 24, leader_count = 4, improvements = 10, most_bases = 8;
  static constexpr int rounds = 6;

  // Points from all over the space, and points around the trials that were the best for their cost.
  std::vector<Point> first_look() {
    std::vector<Point> points;
    for (std::size_t i = 0; i < wide_count; ++i) points.push_back(draw_point(spec_.space, chance_));
    for (const Point& base : bases())
      for (std::size_t i = 0; i < near_count; ++i)
        points.push_back(near(base, i % 3 == 0 ? 1 : i % 3 == 1 ? 0.3 : 0.08));
    return points;
  }

  // The best trials, then those that are best for their cost, most expensive first.
  std::vector<Point> bases() const {
    std::vector<Point> points;
    for (const Trial& trial : evidence_.finished)
      if (!trial.failed && points.size() < 3) points.push_back(trial.point);
    std::vector<const Trial*> front = pareto(evidence_);
    for (std::size_t i = front.size(); i-- > 0 && points.size() < most_bases;)
      if (std::ranges::find(points, front[i]->point) == points.end()) points.push_back(front[i]->point);
    return points;
  }

  // reach: in scales of the parameters.
  Point near(const Point& base, double reach) {
    Point point = base;
    const auto& parameters = spec_.space.parameters;
    const double share = std::max(0.4, 2.0 / static_cast<double>(parameters.size()));
    for (std::size_t i = 0; i < point.size(); ++i) {
      if (!varies(parameters[i]) || chance_.share() > share) continue;
      if (is_ordered(parameters[i]))
        point[i] = std::clamp(point[i] + reach * parameters[i].scale * chance_.normal(), -1.0, 1.0);
      else if (chance_.share() < 0.3)
        point[i] = 2 * chance_.share() - 1;
    }
    return snapped(spec_.space, point);
  }

  void improve(std::vector<Rated>& leaders, double reach) {
    std::vector<Point> points;
    for (const Rated& leader : leaders)
      for (std::size_t i = 0; i < improvements; ++i) points.push_back(near(leader.point, reach));
    const std::vector<Rated> rated = worths(points);
    for (std::size_t i = 0; i < rated.size(); ++i)
      if (rated[i].worth > leaders[i / improvements].worth) leaders[i / improvements] = rated[i];
  }

  std::vector<Rated> rate(const std::vector<Point>& points) const {
    std::vector<Rated> rated = worths(points);
    std::ranges::stable_sort(rated, std::ranges::greater{}, &Rated::worth);
    return rated;
  }

  std::vector<Rated> worths(const std::vector<Point>& points) const {
    Points numbers{ordered_features(spec_.space).size(), {}};
    std::vector<Rated> rated;
    for (const Point& point : points) {
      rated.push_back({snapped(spec_.space, point), 0, 0});
      numbers.add(features(spec_.space, rated.back().point));
    }
    const std::vector<Prediction> scores = score_.predict(numbers);
    const std::vector<double> costs = cost_.predict(numbers);
    for (std::size_t i = 0; i < rated.size(); ++i) {
      rated[i].log_cost = costs[i];
      rated[i].worth =
          log_expected_improvement(scores[i].mean, scores[i].deviation, score_.best()) - weight_ * costs[i];
      // What is expected to take too long comes after everything else, the cheapest first.
      if (costs[i] > most_log_cost_) rated[i].worth = -1e100 * (1 + costs[i] - most_log_cost_);
    }
    return rated;
  }

  const SweepSpec& spec_;
  const Evidence& evidence_;
  const TriedSettings& tried_;
  Chance chance_;
  ScoreModel score_;
  CostModel cost_;
  double weight_;
  double most_log_cost_;
};

}  // namespace

std::optional<Suggestion> suggest_bayes(const SweepSpec& spec, const History& history, const TriedSettings& tried) {
  const Evidence evidence = gather(spec.space, spec.goal, history);
  if (evidence.succeeded && evidence.begun >= first_trials(spec))
    if (auto found = Search(spec, evidence, tried).best()) return found;
  return first_untried(spec.space, tried,
                       [&](std::uint64_t index) { return spread_point(spec.space, spec.seed, index); });
}

}  // namespace muster::sweep
