// A run's configuration as a user gave it: a file, settings as words, short options; and the environment beside them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/resolve.hpp"

namespace muster::service {

struct GivenConfiguration {
  std::optional<std::string> file;                               // absent: MUSTER_CONFIG
  std::map<std::string, std::vector<std::string>> short_values;  // option → what followed it
  std::vector<std::string> settings;                             // key=value
  std::vector<spec::Override> overrides = {};                    // what a command's own options stand for
};

// Reads the file and this process's environment.
Result<spec::ResolvedSpec> resolve_configuration(const spec::Schema& schema, const GivenConfiguration& given);

}  // namespace muster::service
