#include "plan/step_memo.hpp"

#include <algorithm>

namespace muster::plan {

const std::vector<Moment>& StepMemo::training(Implementation implementation, const StepRequest& request) {
  const auto known = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.implementation == implementation && entry.request == request; });
  if (known != entries_.end()) return known->moments;
  entries_.push_back({implementation, request, training_moments(implementation, request)});
  return entries_.back().moments;
}

}  // namespace muster::plan
