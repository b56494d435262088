#include "system/environment.hpp"

#include <cstdlib>

namespace muster {

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace muster
