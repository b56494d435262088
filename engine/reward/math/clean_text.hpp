// Answers in one spelling: LaTeX, Unicode and plain text alike.
#pragma once

#include <string>
#include <string_view>

namespace muster::reward::math {

// Without what only typesets: dollars, spaces of LaTeX, \left and \right, bold and boxes; signs of Unicode as LaTeX's.
std::string clean(std::string_view text);

// For comparing texts: without blanks; a word of several letters in lower case.
std::string folded(std::string_view text);

}  // namespace muster::reward::math
