// Whether a high score or a low one is wanted.
#pragma once

#include <string_view>

namespace muster::sweep {

enum class Goal { maximize, minimize };

// The score as one where higher is better. Its own inverse, and exact: minimising is maximising the negative.
inline double oriented(Goal goal, double score) { return goal == Goal::maximize ? score : -score; }

inline std::string_view word(Goal goal) { return goal == Goal::maximize ? "maximize" : "minimize"; }

}  // namespace muster::sweep
