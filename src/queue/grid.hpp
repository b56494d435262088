// Commands written as grids: "train --rate {0.1,0.01} --seed {1..3}" is six commands.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::queue {

constexpr std::size_t most_of_a_grid = 100'000;

// Every combination, the last brace changing fastest. A brace counts where a shell would expand it: it has a comma or
// two dots between whole numbers, no blank, is not in quotes, not after $ and not after a backslash. Others stay as
// they are.
Result<std::vector<std::string>> expand_grid(std::string_view line);

}  // namespace muster::queue
