// A run's configuration as the user gave it: a file, settings as words, short options, and the environment.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/readers.hpp"
#include "spec/resolve.hpp"

namespace muster::planning {

struct GivenConfiguration {
  std::optional<std::string> file;                               // absent: MUSTER_CONFIG
  std::map<std::string, std::vector<std::string>> short_values;  // option → what followed it
  std::vector<std::string> settings;                             // key=value; one may be the file: FILE.yaml
  std::vector<spec::Override> overrides = {};                    // what a command's own options stand for
  std::optional<spec::Command> command = {};                     // the one that reads them; absent: none in particular
};

// Reads the file and this process's environment. A typed setting that the command does not read is refused.
Result<spec::ResolvedSpec> resolve_configuration(const spec::Schema& schema, const GivenConfiguration& given);

}  // namespace muster::planning
