// The top of a smooth hill: BFGS with shortened steps.
#pragma once

#include <functional>
#include <optional>
#include <vector>

namespace muster::sweep {

struct Height {
  double value = 0;
  std::vector<double> slope;
};

// The height at a place; nothing if it has none.
using Hill = std::function<std::optional<Height>(const std::vector<double>& place)>;

// Climbs from start, looking at no more than this many places; the highest one seen. Every coordinate stays between low
// and high.
std::vector<double> climb(const Hill& hill, std::vector<double> start, const std::vector<double>& low,
                          const std::vector<double>& high, int looks);

}  // namespace muster::sweep
