// Questions whose answer is a number: 1 where it is right, −0.3 where there is none, 0.2 more for shown steps if asked for.
#pragma once

#include "environment/environment.hpp"

namespace muster::environment {

Result<std::unique_ptr<Environment>> make_math_environment(const spec::EnvironmentOptions& options);

}  // namespace muster::environment
