#include "train/extremes.hpp"

#include <cmath>
#include <limits>

namespace muster::train {

std::vector<double> extremes_over_ranks(ObjectivePass& passes, communicate::Communicator& ranks) {
  const auto extremes = passes.objective().extremes();
  if (extremes.empty()) return {};
  const at::Tensor all = passes.take_extremes();
  ranks.all_reduce(all, communicate::Reduction::maximum);
  const at::Tensor host = all.cpu();
  ranks.check();
  std::vector<double> found;
  for (std::size_t i = 0; i < extremes.size(); ++i) {
    const double value = host[static_cast<std::int64_t>(i)].item<float>();
    if (std::isinf(value))
      found.push_back(std::numeric_limits<double>::quiet_NaN());
    else
      found.push_back(extremes[i] == Extreme::least ? -value : value);
  }
  return found;
}

}  // namespace muster::train
