// Whether an answer is the right one; unknown is said where neither can be shown.
#pragma once

namespace muster::reward::math {

enum class Verdict { equal, different, unknown };

}  // namespace muster::reward::math
