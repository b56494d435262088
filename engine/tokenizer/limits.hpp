// How far a stranger's file may go. Real files stay far below.
#pragma once

#include <fmt/format.h>

#include <cstddef>

#include "tokenizer/pattern.hpp"

namespace muster::tokenizer {

// Steps of one normaliser, pre-tokenizer or decoder; each is a level of calls.
constexpr std::size_t most_steps = 64;

// Replacements may make a text longer, but not without bound: forty that double it would fill any memory.
inline void check_growth(std::size_t length, std::size_t given) {
  constexpr std::size_t most_times = 64, always_allowed = 1 << 20;
  if (length > most_times * given + always_allowed)
    throw PatternFailure(fmt::format("the tokenizer makes more than {} bytes of {}", length, given));
}

}  // namespace muster::tokenizer
