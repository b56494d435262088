// What a trainer has around it.
#pragma once

#include <functional>

#include "communicate/communicator.hpp"
#include "train/state_ranks.hpp"
#include "wire/event.hpp"

namespace muster::train {

struct TrainerContext {
  communicate::Communicator& ranks;
  at::Device device;
  int threads = 1;  // that compute
  std::uint64_t seed = 0;
  std::function<void(const wire::EventBody&)> tell;
  std::function<bool()> asked_to_leave;  // a signal came: save, and leave
  JoinSome join_some;                    // of the job's ranks
};

}  // namespace muster::train
