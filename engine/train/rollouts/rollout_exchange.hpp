// Answers and failures, from the ranks that have them to all.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "communicate/communicator.hpp"
#include "train/rollouts/rollout.hpp"

namespace muster::train {

// Those of all ranks, rank after rank; without their advantages. All ranks call it.
std::vector<Rollout> gather_rollouts(const std::vector<Rollout>& own, communicate::Communicator& ranks, at::Device device);

// own: places of the answers whose reward and its parts this rank has; then all ranks have those of all. All ranks call
// it, with the same answers.
void share_rewards(std::vector<Rollout>& answers, const std::vector<std::size_t>& own,
                   communicate::Communicator& ranks, at::Device device);

// Those that rank 0 has, on every rank; what others give does not matter. All ranks call it.
std::vector<Rollout> rollouts_of_first_rank(const std::vector<Rollout>& own, communicate::Communicator& ranks,
                                            at::Device device);

// Whether it is so on some rank. All ranks call it.
bool is_true_anywhere(bool own, communicate::Communicator& ranks, at::Device device);

// The error of the lowest rank that has one, as every rank's. All ranks call it.
Result<void> agree_on_failure(const Result<void>& own, communicate::Communicator& ranks, at::Device device);

}  // namespace muster::train
