#include "system/state_home.hpp"

#include <cstdlib>

namespace muster {

std::optional<std::filesystem::path> state_home() {
  if (const char* chosen = std::getenv("MUSTER_STATE"); chosen != nullptr && *chosen != '\0') {
    std::error_code failure;
    auto path = std::filesystem::absolute(chosen, failure);
    return failure ? std::filesystem::path(chosen) : path;
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".local" / "state" / "muster";
  return std::nullopt;
}

}  // namespace muster
