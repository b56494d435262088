// Which trials are stopped early: successive halving, and hyperband over several starting points, as one pure decision.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sweep/goal.hpp"

namespace muster::sweep {

// A trial that reaches a rung continues if its score there is among the best 1/eta of all so far. Trials are
// never waited for: with fewer than eta scores on a rung the first ones continue.
struct EarlyStop {
  std::vector<std::int64_t> rungs;  // steps, increasing
  double eta = 3;                   // above 1
  // Hyperband: trials are distributed, by their ids, over this many ladders, each of which omits one more of the first
  // rungs; 1 is successive halving.
  std::int64_t ladders = 1;
};

// What a trial reported while it ran.
struct Report {
  std::string trial;
  std::int64_t step = 0;
  double score = 0;
};

enum class Verdict { go_on, stop };

// About trial, from the reports of all trials, its own included, in order of arrival. A NaN score is
// worse than any other.
Verdict judge(const EarlyStop& rule, Goal goal, std::span<const Report> reports, std::string_view trial);

// Rungs at least, at least × eta, at least × eta², … below most.
std::vector<std::int64_t> rungs_from_least(std::int64_t least, double eta, std::int64_t most);
// Rungs most / eta, most / eta², … count of them, those below one step left out.
std::vector<std::int64_t> rungs_below_most(std::int64_t most, double eta, std::int64_t count);

}  // namespace muster::sweep
