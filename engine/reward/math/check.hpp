// Answers of mathematics: docs/rewards.md says what counts as equal.
#pragma once

#include <string_view>

#include "reward/math/verdict.hpp"

namespace muster::reward::math {

// right: a right answer, or a solution that ends in one. completion: what a model wrote. Unknown: the right answer cannot
// be read, the given one needs something that is not understood, or the two could not be compared. An answer that is
// no mathematics, where the right one is, or none at all, is different.
Verdict check(std::string_view right, std::string_view completion);

// The same for two bare answers: "\frac{1}{2}" and "0.5".
Verdict compare_answers(std::string_view right, std::string_view given);

}  // namespace muster::reward::math
