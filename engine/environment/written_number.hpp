// Numbers in what a model wrote, as the guide's environment of mathematics finds them.
#pragma once

#include <optional>
#include <string_view>

namespace muster::environment {

// The last number of a text: "1,234.5" is 1234.5, "-3" is -3, "1e3" is 1000, "3/4" is 0.75.
std::optional<double> last_written_number(std::string_view text);

// What an answer gives as its result: the number behind the last "answer is", "answer:", "####" or "\boxed{", else the last
// one of its last line. What comes before </think> does not count.
std::optional<double> answered_number(std::string_view text);

}  // namespace muster::environment
