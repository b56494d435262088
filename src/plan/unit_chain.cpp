#include "plan/unit_chain.hpp"

#include <algorithm>

namespace muster::plan {

UnitChain::UnitChain(const SplitRequest& request)
    : before_{0}, pairs_(request.shared), shares_(request.units.size()), glued_(request.units.size()) {
  for (const Unit& unit : request.units) {
    bytes_.push_back(unit.bytes);
    workspace_.push_back(unit.workspace);
    before_.push_back(before_.back() + unit.bytes);
  }
  if (pairs_.empty()) return;
  with_earlier_.resize(size());
  with_later_.resize(size());
  for (const SharedBytes& shared : pairs_) {
    shares_[shared.first] = shares_[shared.second] = true;
    with_earlier_[shared.second].push_back({shared.first, shared.bytes});
    with_later_[shared.first].push_back({shared.second, shared.bytes});
  }
}

std::int64_t UnitChain::bytes_to_come(std::size_t begin, std::size_t end) const {
  std::int64_t bytes = bytes_between(begin, end);
  for (const SharedBytes& pair : pairs_)
    if (pair.first < begin && begin <= pair.second && pair.second < end) bytes += pair.bytes;
  return bytes;
}

std::int64_t UnitChain::cost(std::size_t begin, std::size_t end) const {
  Stretch stretch{begin, begin, 0, 0};
  while (stretch.end < end) extend(stretch);
  return stretch.bytes + stretch.workspace;
}

void UnitChain::glue(std::size_t first, std::size_t second) {
  for (std::size_t unit = first + 1; unit <= second; ++unit) glued_[unit] = true;
}

UnitChain::Reach UnitChain::forward(std::size_t begin, std::size_t last, std::int64_t limit) const {
  Reach reach{begin, 0};
  Stretch stretch{begin, begin, 0, 0};
  while (stretch.end < last) {
    extend(stretch);
    reach.next_cost = stretch.bytes + stretch.workspace;
    if (reach.next_cost > limit) return reach;
    if (may_cut(stretch.end)) reach.end = stretch.end;
  }
  return reach;
}

std::size_t UnitChain::backward(std::size_t first, std::size_t end, std::int64_t limit) const {
  std::size_t earliest = end;
  std::int64_t bytes = 0;
  std::int64_t workspace = 0;
  for (std::size_t unit = end; unit-- > first;) {
    bytes += bytes_[unit];
    workspace = std::max(workspace, workspace_[unit]);
    if (shares_[unit]) {
      for (const Other& other : with_earlier_[unit]) bytes += other.bytes;
      for (const Other& other : with_later_[unit])
        if (other.unit < end) bytes -= other.bytes;
    }
    if (bytes + workspace > limit) return earliest;
    if (may_cut(unit)) earliest = unit;
  }
  return earliest;
}

}  // namespace muster::plan
