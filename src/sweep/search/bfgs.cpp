#include "sweep/search/bfgs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::sweep {
namespace {

using Vector = std::vector<double>;

double product(const Vector& left, const Vector& right) {
  return std::inner_product(left.begin(), left.end(), right.begin(), 0.0);
}

// What BFGS keeps from the places so far: an estimate of the inverse curvature, with the sign of a hill.
class Curvature {
 public:
  explicit Curvature(std::size_t size) : size_(size) { forget(); }

  void forget() {
    rows_.assign(size_ * size_, 0.0);
    for (std::size_t i = 0; i < size_; ++i) rows_[i * size_ + i] = 1;
    fresh_ = true;
  }

  Vector times(const Vector& slope) const {
    Vector result(size_);
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = 0; j < size_; ++j) result[i] += rows_[i * size_ + j] * slope[j];
    return result;
  }

  // moved: from one place to the next; change: by how much the slope fell on the way.
  void learn(const Vector& moved, const Vector& change) {
    const double bend = product(moved, change);
    if (bend < 1e-10) return;
    if (fresh_)
      for (std::size_t i = 0; i < size_; ++i) rows_[i * size_ + i] = bend / product(change, change);
    fresh_ = false;
    const Vector turned = times(change);
    const double factor = (1 + product(change, turned) / bend) / bend;
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = 0; j < size_; ++j)
        rows_[i * size_ + j] += factor * moved[i] * moved[j] - (turned[i] * moved[j] + moved[i] * turned[j]) / bend;
  }

 private:
  std::size_t size_;
  Vector rows_;
  bool fresh_ = true;
};

Vector minus(const Vector& left, const Vector& right) {
  Vector result(left);
  for (std::size_t i = 0; i < left.size(); ++i) result[i] -= right[i];
  return result;
}

// No coordinate moves by more than 2: far away the estimate says nothing.
void shorten(Vector& direction) {
  double longest = 0;
  for (const double part : direction) longest = std::max(longest, std::abs(part));
  if (longest <= 2) return;
  for (double& part : direction) part *= 2 / longest;
}

}  // namespace

Vector climb(const Hill& hill, Vector start, const Vector& low, const Vector& high, int looks) {
  auto here = hill(start);
  if (!here) return start;
  Vector place = std::move(start);
  Curvature curvature(place.size());
  for (int look = 1; look < looks;) {
    Vector direction = curvature.times(here->slope);
    if (product(direction, here->slope) <= 0) {
      curvature.forget();
      direction = here->slope;
    }
    shorten(direction);
    bool climbed = false;
    for (double length = 1; look < looks && length > 1e-3 && !climbed; length *= 0.3, ++look) {
      Vector next = place;
      for (std::size_t i = 0; i < place.size(); ++i)
        next[i] = std::clamp(place[i] + length * direction[i], low[i], high[i]);
      const Vector moved = minus(next, place);
      auto there = hill(next);
      if (!there || there->value < here->value + 1e-4 * product(here->slope, moved)) continue;
      climbed = true;
      curvature.learn(moved, minus(here->slope, there->slope));
      const bool flat = there->value - here->value < 1e-3;
      place = std::move(next);
      here = std::move(there);
      if (flat) return place;
    }
    if (!climbed) break;
  }
  return place;
}

}  // namespace muster::sweep
