#include "sweep/search/cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace muster::sweep {

CostModel::CostModel(const Space& space, const Evidence& evidence) {
  constexpr double least_seconds = 1e-3, least_deviation = 0.02;  // below 2 % it is chance
  Points points{ordered_features(space).size(), {}};
  std::vector<double> logarithms;
  for (const Trial& trial : evidence.finished) {
    if (trial.failed) continue;
    points.add(features(space, trial.point));
    logarithms.push_back(std::log(std::max(trial.cost, least_seconds)));
  }
  if (logarithms.empty()) return;
  const auto count = static_cast<double>(logarithms.size());
  double square = 0;
  for (const double logarithm : logarithms) mean_ += logarithm / count;
  for (const double logarithm : logarithms) square += (logarithm - mean_) * (logarithm - mean_) / count;
  if (std::sqrt(square) < least_deviation) return;
  deviation_ = std::sqrt(square);
  const std::vector<double> values = standardized(std::move(logarithms));
  Kernel kernel = fit_kernel(points, values, ordered_features(space));
  process_.emplace(std::move(kernel), std::move(points), values);
}

std::vector<double> CostModel::predict(const Points& points) const {
  std::vector<double> logarithms(points.count(), mean_);
  if (!process_) return logarithms;
  const std::vector<double> means = process_->predict_means(points);
  for (std::size_t i = 0; i < logarithms.size(); ++i) logarithms[i] += deviation_ * means[i];
  return logarithms;
}

}  // namespace muster::sweep
