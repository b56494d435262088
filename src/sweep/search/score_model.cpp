#include "sweep/search/score_model.hpp"

#include <algorithm>
#include <limits>

namespace muster::sweep {
namespace {

Points points_of(const Space& space, const Evidence& evidence) {
  Points points{ordered_features(space).size(), {}};
  for (const Trial& trial : evidence.finished) points.add(features(space, trial.point));
  return points;
}

// Note [Lies about running trials]: a running trial is assumed to end with a middling score, one and the same constant
// for all. That removes the uncertainty there, so that no other trial goes to the same place, and nothing is drawn
// to it. The kernel is fitted only to real results.
GaussianProcess process_of(const Space& space, const Evidence& evidence, std::vector<double> values) {
  Points points = points_of(space, evidence);
  Kernel kernel = fit_kernel(points, values, ordered_features(space));
  std::vector<double> sorted = values;
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2));
  const double lie = sorted[sorted.size() / 2];
  for (const Point& point : evidence.running) {
    points.add(features(space, point));
    values.push_back(lie);
  }
  return {std::move(kernel), std::move(points), values};
}

}  // namespace

ScoreModel::ScoreModel(const Space& space, const Evidence& evidence)
    : ScoreModel(space, evidence, shaped_scores(evidence)) {}

ScoreModel::ScoreModel(const Space& space, const Evidence& evidence, std::vector<double> values)
    : process_(process_of(space, evidence, std::move(values))), best_(-std::numeric_limits<double>::infinity()) {
  const std::vector<double> means = process_.predict_means(points_of(space, evidence));
  for (std::size_t i = 0; i < means.size(); ++i)
    if (!evidence.finished[i].failed) best_ = std::max(best_, means[i]);
}

}  // namespace muster::sweep
