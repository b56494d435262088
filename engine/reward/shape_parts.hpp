// Reward functions of an answer's shape: its form, its length, how much of it is repeated.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "reward/judge_one.hpp"
#include "spec/reward_options.hpp"

namespace muster::reward {

// 1 when the regular expression matches, else 0; unknown for an answer that it would take too long on. Refused: what is
// not a regular expression.
Result<JudgeOne> match_format(const std::string& expression, spec::FormatMatch match);

// DAPO's: 0 up to margin tokens before the room's end, then falling to -1 there. margin absent: a fifth of the room.
std::optional<double> overlong_penalty(const Answered& answered, std::optional<std::int64_t> margin);

// Minus the share of runs of so many words that came before.
std::optional<double> repetition_penalty(const Answered& answered, std::int64_t words);

}  // namespace muster::reward
