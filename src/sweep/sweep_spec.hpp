// What a user requests of a sweep, in either of the two kinds of file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sweep/early_stop.hpp"
#include "sweep/goal.hpp"
#include "sweep/space.hpp"

namespace muster::sweep {

enum class Method { grid, random, bayes };

struct Limits {
  std::optional<std::int64_t> trials;     // ended ones, including failures
  std::optional<double> seconds;          // of the whole sweep
  std::optional<double> trial_seconds;    // no trial that is expected to take longer is suggested
  std::optional<double> trial_timeout;    // a trial that takes longer is ended, and counts as failed
  std::int64_t consecutive_failures = 5;  // this many end the sweep
};

// Settings of the Bayesian method; what is absent follows from the space and the limits.
struct BayesOptions {
  std::optional<std::int64_t> first_trials;  // spread over the space before anything is predicted
  std::optional<double> cost_weight;         // 0: cost does not matter; 1: what counts is improvement per second
};

struct SweepSpec {
  std::string metric;
  Goal goal = Goal::maximize;
  Method method = Method::bayes;
  Space space;
  Limits limits;
  std::uint64_t seed = 0;
  std::optional<EarlyStop> early_stop;
  BayesOptions bayes;
  std::vector<std::string> command;   // with ${…} in it (trial_command.hpp); empty: muster's own training
  std::string program;                // what ${program} stands for
  std::vector<std::string> evaluate;  // a command after that, on the same GPUs; empty: none
  std::optional<double> heartbeat;    // a trial without a sign of life for this many seconds is ended
};

// A sweep file, muster's own or W&B's, or every problem it has. source names the text in messages.
Result<SweepSpec> read_sweep_spec(std::string_view text, std::string_view source);

std::string_view word(Method method);

}  // namespace muster::sweep
