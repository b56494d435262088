// Questions that are answered with the help of tools, which the model calls in its answers. docs/environments.md has the
// rewards.
#pragma once

#include "environment/environment.hpp"

namespace muster::environment {

Result<std::unique_ptr<Environment>> make_tool_environment(const spec::EnvironmentOptions& options);

}  // namespace muster::environment
