// Programs that a row's tests judge: passed/total, 1 more where all pass, 0.5 less where the program fails otherwise than by a
// wrong result.
#pragma once

#include "environment/environment.hpp"

namespace muster::environment {

Result<std::unique_ptr<Environment>> make_code_environment(const spec::EnvironmentOptions& options);

}  // namespace muster::environment
