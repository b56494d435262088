// The units of one split in their order, and what any stretch of them takes on a device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/layer_split.hpp"

namespace muster::plan {

// Note [Stretches shrink]
// What a stretch takes never grows when a unit leaves it at either end: a unit that leaves at the front leaves a
// duplicate of what it shares with later ones, which is never more than it brought (see SharedBytes). Hence devices
// that are filled in order, each as far as it goes, reach at least as far as by any other split, whatever their
// capacities: a sweep decides whether a split within given limits exists, and which units no split can reach.
class UnitChain {
 public:
  explicit UnitChain(const SplitRequest& request);

  std::size_t size() const { return bytes_.size(); }
  std::int64_t bytes_between(std::size_t begin, std::size_t end) const { return before_[end] - before_[begin]; }

  // What units [begin, end) bring to any number of devices: their bytes and what they share with units before them.
  std::int64_t bytes_to_come(std::size_t begin, std::size_t end) const;

  // What units [begin, end) take on one device: bytes, duplicates of what they share with earlier ones, the largest
  // workspace.
  std::int64_t cost(std::size_t begin, std::size_t end) const;

  // From now on no cut between these two.
  void glue(std::size_t first, std::size_t second);
  bool may_cut(std::size_t position) const { return position == 0 || position == size() || !glued_[position]; }
  // Undoes every glue() since `state` was read.
  std::vector<bool> glue_state() const { return glued_; }
  void restore(std::vector<bool> state) { glued_ = std::move(state); }

  // The furthest end of a stretch from begin that takes at most limit, and what one unit more would take.
  struct Reach {
    std::size_t end = 0;
    std::int64_t next_cost = 0;  // when end is not the last possible one
  };
  Reach forward(std::size_t begin, std::size_t last, std::int64_t limit) const;
  // The earliest beginning of a stretch to end that takes at most limit.
  std::size_t backward(std::size_t first, std::size_t end, std::int64_t limit) const;

  // Walks the ends of stretches from begin: visit(end, cost) for each place where a cut is allowed, until it returns
  // false.
  template <class Visit>
  void walk(std::size_t begin, std::size_t last, Visit visit) const {
    Stretch stretch{begin, begin, 0, 0};
    while (stretch.end < last) {
      extend(stretch);
      if (may_cut(stretch.end) && !visit(stretch.end, stretch.bytes + stretch.workspace)) return;
    }
  }

 private:
  struct Other {
    std::size_t unit = 0;
    std::int64_t bytes = 0;
  };
  struct Stretch {
    std::size_t begin, end;
    std::int64_t bytes, workspace;
  };
  void extend(Stretch& stretch) const {
    const std::size_t unit = stretch.end++;
    stretch.bytes += bytes_[unit];
    if (workspace_[unit] > stretch.workspace) stretch.workspace = workspace_[unit];
    if (shares_[unit])
      for (const Other& other : with_earlier_[unit])
        if (other.unit < stretch.begin) stretch.bytes += other.bytes;
  }

  std::vector<std::int64_t> bytes_;
  std::vector<std::int64_t> workspace_;
  std::vector<std::int64_t> before_;  // sums of bytes_
  std::vector<SharedBytes> pairs_;
  std::vector<bool> shares_;
  std::vector<std::vector<Other>> with_earlier_;  // per unit that shares: partners before it; empty if none share
  std::vector<std::vector<Other>> with_later_;
  std::vector<bool> glued_;  // per unit: no cut before it
};

}  // namespace muster::plan
