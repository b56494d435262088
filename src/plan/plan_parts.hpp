// The parts of make_plan, for training and for inference.
#pragma once

#include "plan/plan.hpp"

namespace muster::plan {

Result<Plan> plan_training(const Question& question);
Result<Plan> plan_inference(const Question& question);

// What a plan puts in the memory of its first host instead of on GPUs.
std::int64_t host_bytes(const Plan& plan);

// The device that lacks the most decides: the refusal of a plan in which some rank does not fit.
// host_memory: free on each host, where that is known.
std::optional<Refusal> refusal_of(const Plan& plan, std::optional<std::int64_t> host_memory);

// What to type if this many GPUs do not divide the model's matrices.
std::string dividing_gpus(const spec::ModelConfig& config, std::int64_t gpus);

// The one rank of a host without GPUs: what it needs there, and may use.
RankPlan cpu_rank(const Question& question, DeviceMemory memory);

// What each of the ranks on this device may use of it.
std::int64_t rank_limit(const Question& question, std::size_t device);

// Ranks 0 … on the devices of this many hosts, each with the same memory. One host is enough for a verdict.
std::vector<RankPlan> equal_ranks(const Question& question, const DeviceMemory& memory, std::int64_t hosts);
inline std::int64_t hosts_to_tell(const Question& question) {
  return question.detail == Detail::verdict ? 1 : question.hosts;
}

// The largest number in [1, most] for which fits holds, given that it holds up to some number; 0: for none.
template <class Fits>
std::int64_t largest_that(std::int64_t most, Fits fits) {
  if (!fits(std::int64_t{1})) return 0;
  std::int64_t good = 1, bad = most + 1;
  for (std::int64_t next = 2; next < bad; next *= 2) {
    if (!fits(next)) {
      bad = next;
      break;
    }
    good = next;
  }
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace muster::plan
