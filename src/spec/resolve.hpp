// From what the user wrote to a RunSpec in which every value records where it came from, or every problem at once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "spec/run_spec.hpp"
#include "spec/schema.hpp"

namespace muster::spec {

// Where a value came from; a later kind overrides an earlier one.
struct Origin {
  enum class Kind { built_in, model, file, environment, command_line };
  Kind kind = Kind::built_in;
  std::string where;  // "run.yaml:3:5", "MUSTER_MODEL_DTYPE", "--num-gpus"
};

struct ConfigurationFile {
  std::string name;  // for messages
  std::string text;
};

// One "key=value" of the command line, or a short option that stands for one.
struct Override {
  std::string key;
  std::string value;
  std::string where;  // "--num-gpus", or the argument itself
};

struct Sources {
  std::optional<ConfigurationFile> file;
  std::vector<std::pair<std::string, std::string>> environment;  // the whole environment; only muster's names count
  std::vector<Override> overrides;
};

struct ResolvedSpec {
  RunSpec spec;
  std::map<std::string, Origin> origins;  // of every key that is not at its built-in value
  std::vector<std::string> notes;         // used aliases, overridden values: to be shown once
};

Result<ResolvedSpec> resolve(const Schema& schema, const Sources& sources);

// "a.b.c=value" as on the command line, or why it is not one.
Result<Override> parse_override(std::string_view argument);

// Keys whose capability this version lacks, set to something that would need it. One problem each.
std::vector<Problem> missing_capabilities(const Schema& schema, const ResolvedSpec& resolved);

// Every key with its value and origin, as YAML that loads back to the same.
std::string print_configuration(const Schema& schema, const ResolvedSpec& resolved);

}  // namespace muster::spec
