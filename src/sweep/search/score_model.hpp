// What scores are expected to be, running trials taken into account.
#pragma once

#include <vector>

#include "sweep/search/evidence.hpp"
#include "sweep/search/gaussian_process.hpp"

namespace muster::sweep {

class ScoreModel {
 public:
  // At least one trial succeeded.
  ScoreModel(const Space& space, const Evidence& evidence);

  // On the scale of shaped_scores.
  std::vector<Prediction> predict(const Points& points) const { return process_.predict(points); }
  // The best expectation where trials have succeeded: one of them having been lucky does not count.
  double best() const { return best_; }

 private:
  ScoreModel(const Space& space, const Evidence& evidence, std::vector<double> values);

  GaussianProcess process_;
  double best_ = 0;
};

}  // namespace muster::sweep
