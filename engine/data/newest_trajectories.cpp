#include "data/newest_trajectories.hpp"

namespace muster::data {

void NewestTrajectories::add(const EncodedSamples& encoded) {
  auto next = encoded.samples.begin();
  for (const std::size_t count : encoded.trajectories) {
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    kept_.emplace_back(next, end);
    next = end;
    if (std::ssize(kept_) <= most_) continue;
    kept_.pop_front();
    ++left_out_;
  }
}

std::vector<Sample> NewestTrajectories::samples() const {
  std::vector<Sample> all;
  for (const std::vector<Sample>& one : kept_) all.insert(all.end(), one.begin(), one.end());
  return all;
}

}  // namespace muster::data
