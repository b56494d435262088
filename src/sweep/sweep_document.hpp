// A sweep file as text that words of a command line can change, and that is compared with another one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::sweep {

// The file with each word "key=value" in it. limits.trials=50, method=grid, … are keys of the file itself; what begins
// with "parameters." and every other path is a parameter: one value for all trials, a list (a,b) or a table
// ({min: 1, max: 8}). Unchanged, including comments, if there are no words.
Result<std::string> with_words(std::string_view text, std::string_view source, std::span<const std::string> words);

// The differences between two files, one per line ("seed is 1, not 2"), except for the limits, which may differ.
Result<std::vector<std::string>> differences(std::string_view had, std::string_view wanted);

}  // namespace muster::sweep
