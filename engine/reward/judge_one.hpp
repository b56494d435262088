// A reward function of one answer by itself.
#pragma once

#include <functional>
#include <optional>

#include "reward/judge.hpp"

namespace muster::reward {

// Absent: unknown.
using JudgeOne = std::function<std::optional<double>(const Answered&)>;

}  // namespace muster::reward
