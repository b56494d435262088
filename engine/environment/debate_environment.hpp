// Arguments for or against a topic, in turn with an opponent who has a script. docs/environments.md has the rewards.
#pragma once

#include "environment/environment.hpp"

namespace muster::environment {

Result<std::unique_ptr<Environment>> make_debate_environment(const spec::EnvironmentOptions& options);

}  // namespace muster::environment
