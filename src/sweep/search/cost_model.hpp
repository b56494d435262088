// How long trials are expected to take.
#pragma once

#include <optional>
#include <vector>

#include "sweep/search/evidence.hpp"
#include "sweep/search/gaussian_process.hpp"

namespace muster::sweep {

class CostModel {
 public:
  // Made from the trials that succeeded: how soon a trial fails says nothing about how long one takes.
  CostModel(const Space& space, const Evidence& evidence);

  // The logarithm of the seconds at each point.
  std::vector<double> predict(const Points& points) const;

 private:
  double mean_ = 0, deviation_ = 1;         // of the logarithms
  std::optional<GaussianProcess> process_;  // none if all trials take equally long
};

}  // namespace muster::sweep
