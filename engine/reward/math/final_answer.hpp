// Where in a text the answer is.
#pragma once

#include <string>
#include <string_view>

namespace muster::reward::math {

// The last of these that there is, in this order: \boxed{…}, a line after ####, what follows "answer is" or "answer:",
// $…$, the text itself if it is mathematics, its last number; else the text. What comes before </think> does not count.
std::string final_answer(std::string_view text);

}  // namespace muster::reward::math
