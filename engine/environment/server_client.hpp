// What asks a server of environments: the program muster-environments, which alone speaks gRPC.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/environment_options.hpp"

namespace muster::environment {

inline constexpr const char* token_variable = "MUSTER_ENVIRONMENT_TOKEN";

// muster-environments: what MUSTER_ENVIRONMENTS names, else next to this program, else in the build tree that this
// program is in.
Result<std::filesystem::path> find_environments_program();

// Asks options.server as a program would be asked that is the environment. Refused: a token file that others may read.
Result<std::vector<std::string>> client_command(const spec::EnvironmentOptions& options);

// The token in a file, which nobody but its owner may read, or else in token_variable; empty: there is none.
Result<std::string> read_token(const std::optional<std::string>& file);

}  // namespace muster::environment
