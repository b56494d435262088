// Jobs that could begin if there were GPUs for them, in order. Jobs that want the same number of GPUs for about
// the same time share a lane, and only the first of each lane is ever looked at: the cost of a decision grows with the
// number of lanes, not with the length of the line.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "schedule/job.hpp"
#include "schedule/job_index.hpp"
#include "schedule/duration_bucket.hpp"

namespace muster::schedule {

// Which job goes first. Waiting raises priority at a fixed rate, so that the order of two jobs never changes:
// Note [Ageing without sorting].
struct Rank {
  Time since;        // when it was submitted, minus its priority's worth of waiting
  int left = 1;      // jobs left in its chain: nearer to done goes first
  JobIndex order{};  // submitted first goes first; different for every job
  auto operator<=>(const Rank&) const = default;
};

class WaitingLine {
 public:
  void add(const Rank& rank, int gpus, LengthStep length);
  void remove(const Rank& rank, int gpus, LengthStep length);

  std::size_t size() const { return size_; }
  std::size_t size(int gpus) const;

  // The first of those that want at least one GPU and at most these.
  std::optional<Rank> first(int gpus) const;
  // The first that wants no GPU.
  std::optional<Rank> first_without_gpus() const;
  // The first of those that want at most `open` GPUs, or at most `gpus` and none longer than a step.
  std::optional<Rank> first_beside(int open, int gpus, LengthStep longest) const;

  // Those before a place, in order; at most this many.
  std::vector<Rank> before(const Rank& place, std::size_t most) const;
  std::size_t count_before(const Rank& place) const;

 private:
  using Lane = std::set<Rank>;
  std::map<std::pair<int, LengthStep>, Lane> lanes_;  // by GPUs, then by length; none is empty
  std::size_t size_ = 0;
};

}  // namespace muster::schedule
