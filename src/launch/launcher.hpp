// Runs one host's part of a launch, from the first round to the end.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "launch/failure.hpp"
#include "launch/launch_request.hpp"
#include "launch/rendezvous_point.hpp"

namespace muster::launch {

// What the launcher asks of its surroundings.
struct LaunchHooks {
  std::function<void(const std::string&)> note;  // a line for the user
  // Whether the GPUs have the memory back that the last round used; asked before another round begins.
  std::function<bool()> gpus_are_free;
  std::chrono::milliseconds reclaim{30000};  // the longest wait for that
  // Called once, when nothing forks any more in this process: threads may be started from here on.
  std::function<void()> started = {};
  // Why the run failed, in place of torchrun's block on standard error.
  std::function<void(const FailureReport&)> failed = {};
  // A signal came that ends the run; the ranks are asked to end after this.
  std::function<void(int signal)> interrupted = {};
};

// Returns the exit code of the whole. To be called while this process has one thread only: it forks. Signals are the
// launcher's from here on.
Result<int> launch(const LaunchRequest& request, const RankResources& resources, BoundRendezvous rendezvous_point,
                   const LaunchHooks& hooks);

}  // namespace muster::launch
