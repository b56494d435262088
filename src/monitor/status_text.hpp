// Progress from the last line that a program wrote.
#pragma once

#include <optional>
#include <string_view>

#include "monitor/sample.hpp"

namespace muster::monitor {

// Understands muster train's own line ("step 120/1200  loss 0.83  …  5,210 tokens/s  58 s left") and the bars of
// tqdm (" 45%|████▌     | 45/100 [00:10<00:12,  4.50it/s]"). Nothing if it is neither.
std::optional<Progress> progress_of_line(std::string_view line);

}  // namespace muster::monitor
