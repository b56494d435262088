// Comparing answers that were read.
#pragma once

#include "reward/math/form.hpp"
#include "reward/math/verdict.hpp"

namespace muster::reward::math {

Verdict compare(const Form& right, const Form& given);

}  // namespace muster::reward::math
