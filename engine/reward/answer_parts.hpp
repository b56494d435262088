// Reward functions that compare with the right answer. The question has one.
#pragma once

#include "reward/judge_one.hpp"

namespace muster::reward {

// 1 when they are the same text, but for blanks around it.
std::optional<double> is_exact(const Answered& answered);

// 1 when the right answer stands in the completion, not as a piece of a longer word or number.
std::optional<double> contains_answer(const Answered& answered);

// 1 when the last numbers of both are equal: 1,234.50 is 1234.5. Unknown when the right answer has no number.
std::optional<double> has_last_number(const Answered& answered);

// What math/check.hpp says.
std::optional<double> is_mathematically_equal(const Answered& answered);

// The share of places, from the left, where both have the same character: 1 for equal texts, 0.5 for 41 in the place of 46.
std::optional<double> share_of_characters(const Answered& answered);

}  // namespace muster::reward
