// A command as plain values, read from the parser itself: help, man pages and shell completion are made from them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/example.hpp"

namespace CLI {
class App;
}

namespace muster::cli {

struct OptionDescription {
  std::vector<std::string> names;    // as typed: "-n", "--num-gpus"; a positional has one: "SETTINGS"
  std::string value;                 // what follows, as help shows it: "FILE", "N"; empty: a flag
  std::vector<std::string> choices;  // the possible values, if they are a closed set
  std::string help;
  std::string fallback;  // the built-in value; empty: none to show
  std::string group;
  int least = 0, most = 0;  // values that follow
  bool required = false;
  bool is_positional = false;
};

struct CommandDescription {
  std::string spoken;  // "muster gpus pick"
  std::string name;    // "pick"
  std::string purpose;
  std::string group;
  std::vector<OptionDescription> options;  // with positionals; without hidden ones
  std::vector<CommandDescription> commands;
  std::vector<Example> examples;
  std::string notes;
  bool needs_command = false;

  const CommandDescription* find_command(std::string_view name) const;
  const OptionDescription* find_option(std::string_view name) const;
  std::vector<const OptionDescription*> positionals() const;
};

// parents: the words before its name, "muster gpus"; empty for the program itself.
CommandDescription describe(const CLI::App& command, const std::string& parents = "");

// How help and man pages begin: "muster gpus pick [OPTIONS]".
std::string usage(const CommandDescription& command);

}  // namespace muster::cli
