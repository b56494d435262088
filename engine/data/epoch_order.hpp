// The order of the samples of an epoch: a pure function of lengths, seed and epoch, whatever the number of
// ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster::data {

struct OrderSettings {
  std::uint64_t seed = 0;
  bool shuffled = true;              // false: as they lie in the dataset
  bool packing = false;              // several samples side by side in a unit
  std::int64_t sequence_length = 0;  // tokens that a packed unit has at most
  std::int64_t together = 1;         // so many consecutive samples are never parted, and make a unit; not with packing
};

// A unit is what a batch counts: one sample, those that belong together (the two of a pair) or, with packing, those that
// fit into a sequence; each with positions and attention of its own.
// Every sample is in exactly one unit of an epoch.
class EpochOrder {
 public:
  // Packing: each sample goes, in the order of the epoch, to the first of the open units that has room for it; at most
  // `most_open` are open, and the fullest is closed where one more is needed. A unit's place is where it was begun.
  static EpochOrder make(std::span<const std::uint32_t> lengths, const OrderSettings& settings, std::int64_t epoch);
  static constexpr std::size_t most_open = 64;

  std::int64_t units() const { return static_cast<std::int64_t>(ends_.size()); }
  // Its samples, by number in the dataset.
  std::span<const std::uint32_t> unit(std::int64_t index) const;

 private:
  static EpochOrder make_groups(std::uint32_t count, const OrderSettings& settings, std::int64_t epoch);

  std::vector<std::uint32_t> samples_;
  std::vector<std::uint64_t> ends_;  // of each unit, in samples_
};

// A permutation of 0 … count-1; over seeds, all are equally likely.
std::vector<std::uint32_t> shuffled_numbers(std::uint32_t count, std::uint64_t seed, std::int64_t epoch);

}  // namespace muster::data
