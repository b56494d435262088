// A number with what it counts: "1 sample", "2 samples".
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace muster {

// thing: in the singular. Its plural is assumed to end in s, unless given.
std::string count_of(long long count, std::string_view thing, std::string_view plural = {});

std::string count_of(std::integral auto count, std::string_view thing, std::string_view plural = {}) {
  return count_of(static_cast<long long>(count), thing, plural);
}

}  // namespace muster
