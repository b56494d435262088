#include "base/count_of.hpp"

#include <fmt/format.h>

namespace muster {

std::string count_of(long long count, std::string_view thing, std::string_view plural) {
  if (count == 1 || count == -1) return fmt::format("{} {}", count, thing);
  return plural.empty() ? fmt::format("{} {}s", count, thing) : fmt::format("{} {}", count, plural);
}

}  // namespace muster
