#include "schedule/waiting_line.hpp"

#include <algorithm>
#include <iterator>

namespace muster::schedule {
namespace {

void keep_first(std::optional<Rank>& first, const Rank& rank) {
  if (!first || rank < *first) first = rank;
}

constexpr LengthStep shortest{0};

}  // namespace

/* Note [Ageing without sorting]
   A job of priority p that has waited for w ranks with p + w / ageing. At any moment the comparison of two jobs,
   p1 + (now − s1) / ageing > p2 + (now − s2) / ageing, is the comparison of s − p × ageing, in which now does not
   occur. So the rank is computed once, and a line that is sorted stays sorted. It also bounds waiting: whoever is
   submitted later than (p2 − p1) × ageing after a job ranks behind it, whatever its priority. */

void WaitingLine::add(const Rank& rank, int gpus, LengthStep length) {
  lanes_[{gpus, length}].insert(rank);
  ++size_;
}

void WaitingLine::remove(const Rank& rank, int gpus, LengthStep length) {
  const auto lane = lanes_.find({gpus, length});
  if (lane == lanes_.end() || lane->second.erase(rank) == 0) return;
  --size_;
  if (lane->second.empty()) lanes_.erase(lane);
}

std::size_t WaitingLine::size(int gpus) const {
  std::size_t total = 0;
  for (auto lane = lanes_.lower_bound({gpus, shortest}); lane != lanes_.end() && lane->first.first == gpus; ++lane)
    total += lane->second.size();
  return total;
}

std::optional<Rank> WaitingLine::first(int gpus) const {
  std::optional<Rank> first;
  for (auto lane = lanes_.lower_bound({1, shortest}); lane != lanes_.end() && lane->first.first <= gpus; ++lane)
    keep_first(first, *lane->second.begin());
  return first;
}

std::optional<Rank> WaitingLine::first_without_gpus() const {
  std::optional<Rank> first;
  for (auto lane = lanes_.begin(); lane != lanes_.end() && lane->first.first == 0; ++lane)
    keep_first(first, *lane->second.begin());
  return first;
}

std::optional<Rank> WaitingLine::first_beside(int open, int gpus, LengthStep longest) const {
  std::optional<Rank> first;
  for (auto lane = lanes_.lower_bound({1, shortest}); lane != lanes_.end() && lane->first.first <= gpus; ++lane)
    if (lane->first.first <= open || lane->first.second <= longest) keep_first(first, *lane->second.begin());
  return first;
}

std::vector<Rank> WaitingLine::before(const Rank& place, std::size_t most) const {
  std::vector<Rank> all;
  for (const auto& [kind, lane] : lanes_) {
    std::size_t taken = 0;
    for (auto rank = lane.begin(); rank != lane.end() && *rank < place && taken < most; ++rank, ++taken)
      if (kind.first > 0) all.push_back(*rank);
  }
  std::ranges::sort(all);
  if (all.size() > most) all.resize(most);
  return all;
}

std::size_t WaitingLine::count_before(const Rank& place) const {
  std::size_t total = 0;
  for (const auto& [kind, lane] : lanes_)
    if (kind.first > 0) total += static_cast<std::size_t>(std::distance(lane.begin(), lane.lower_bound(place)));
  return total;
}

}  // namespace muster::schedule
