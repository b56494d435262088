#include "sweep/search/initial_design.hpp"

#include <cmath>

namespace muster::sweep {
namespace {

// The root of x^(d+1) = x + 1: multiples of its powers leave the smallest known gaps for an endless sequence.
double harmonious(std::size_t dimensions) {
  double root = 2;
  for (int round = 0; round < 64; ++round) root = std::pow(1 + root, 1 / (static_cast<double>(dimensions) + 1));
  return root;
}

}  // namespace

Point spread_point(const Space& space, std::uint64_t seed, std::uint64_t index) {
  if (index == 0) return centre_of(space);
  const double root = harmonious(space.parameters.size());
  Chance chance(seed, 0);
  Point point;
  double stride = 1;
  for (const Parameter& parameter : space.parameters) {
    stride /= root;
    const double place = chance.share() + static_cast<double>(index) * stride;
    const double share = place - std::floor(place);
    point.push_back(draw_unit(parameter, std::min(std::max(share, 1e-12), 1 - 1e-12)));
  }
  return point;
}

}  // namespace muster::sweep
