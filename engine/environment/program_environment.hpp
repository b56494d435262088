// An environment that a program of the user's is, or a server: docs/environments.md. An episode that the program
// forgets, as it ended meanwhile, is played again with the answers that there were; one that does not come out the same
// is worth nobody knows what.
#pragma once

#include "environment/environment.hpp"
#include "environment/environment_program.hpp"

namespace muster::environment {

// report: what users are told meanwhile, as that it was started again; empty: to standard error. Refused: a token file
// that others may read; no muster-environments to ask a server with.
Result<std::unique_ptr<Environment>> make_program_environment(const spec::EnvironmentOptions& options,
                                                              Report report = {});

}  // namespace muster::environment
