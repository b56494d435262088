// The refusal of something that accelerate or transformers itself cannot do.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "plan/compat_map.hpp"

namespace muster::plan {

// "accelerate itself fails here with KeyError: 0: …"
inline Error fails_in_original(CompatRules rules, std::string_view exception, std::string_view reason,
                               std::string_view remedy) {
  const std::string_view who = rules == CompatRules::accelerate ? "accelerate" : "transformers";
  return {Error::Kind::refused, fmt::format("{} itself fails here with {}: {}", who, exception, reason),
          fmt::format("{}, or use the default planner, which has no such limit", remedy)};
}

}  // namespace muster::plan
