// Spans of time as users write them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster {

// "30s", "5m", "2h", "500ms", "90" (seconds).
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// "12 s", "3 min", "2 h 5 min": for people, two units at most.
std::string to_string(std::chrono::milliseconds span);

}  // namespace muster
