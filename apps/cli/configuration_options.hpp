// The options every command that reads a configuration shares: --config, the short options and key=value.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/resolve.hpp"

namespace CLI {
class App;
}

namespace muster::cli {

struct ConfigurationOptions {
  std::optional<std::string> file;
  std::map<std::string, std::vector<std::string>> short_values;  // option → what followed it
  std::vector<std::string> settings;                             // key=value
  std::vector<spec::Override> overrides;                         // what a command's own options stand for
  bool print = false;
  bool json = false;
};

std::shared_ptr<ConfigurationOptions> add_configuration_options(CLI::App& command);

// The resolved configuration; notes are printed on standard error.
Result<spec::ResolvedSpec> resolve_configuration(const spec::Schema& schema, const ConfigurationOptions& options);

// --print-config, as YAML or, with --json, as {"key": {"value", "origin"}}.
void print_resolved(const spec::Schema& schema, const spec::ResolvedSpec& resolved, bool json);

}  // namespace muster::cli
