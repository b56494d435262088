// The environment of this process.
#pragma once

#include <optional>
#include <string>

namespace muster {

std::optional<std::string> environment_variable(const char* name);

}  // namespace muster
