// The samples of the last trajectories of the data, while it is read from its beginning.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "data/sample_encoder.hpp"

namespace muster::data {

class NewestTrajectories {
 public:
  // most: trajectories that are kept, at least 1.
  explicit NewestTrajectories(std::int64_t most) : most_(most) {}

  // All samples are those of trajectories.
  void add(const EncodedSamples& encoded);
  std::int64_t left_out() const { return left_out_; }
  std::vector<Sample> samples() const;

 private:
  std::int64_t most_;
  std::int64_t left_out_ = 0;
  std::deque<std::vector<Sample>> kept_;
};

}  // namespace muster::data
