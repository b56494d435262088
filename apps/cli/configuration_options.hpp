// The options every command that reads a configuration shares: --config, the short options and key=value.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "planning/configuration.hpp"
#include "spec/resolve.hpp"

namespace CLI {
class App;
}

namespace muster::cli {

struct ConfigurationOptions : planning::GivenConfiguration {
  bool print = false;
  bool json = false;
};

enum class Training { no, yes };  // whether the command trains, and so has the short options of training
std::shared_ptr<ConfigurationOptions> add_configuration_options(CLI::App& command, Training training = Training::no);

// The resolved configuration; notes are printed on standard error.
Result<spec::ResolvedSpec> resolve_configuration(const spec::Schema& schema, const ConfigurationOptions& options);

// --resume alone is --resume auto; a setting after it is a setting.
void take_bare_resume(planning::GivenConfiguration& configuration);

// --print-config, as YAML or, with --json, as {"key": {"value", "origin"}}.
void print_resolved(const spec::Schema& schema, const spec::ResolvedSpec& resolved, bool json);

}  // namespace muster::cli
