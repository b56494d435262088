// What --help prints.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_description.hpp"

namespace muster::cli {

// width: columns of the terminal; less than 40 counts as 40.
std::string help_text(const CommandDescription& command, std::size_t width);

// An option as help and man pages show it: "-n, --num-gpus N".
std::string option_heading(const OptionDescription& option);

// The options of a command by group, in the order in which groups appear; "Options" comes first.
struct OptionGroup {
  std::string name;
  std::vector<const OptionDescription*> options;
};
std::vector<OptionGroup> option_groups(const CommandDescription& command);

struct CommandGroup {
  std::string name;
  std::vector<const CommandDescription*> commands;
};
std::vector<CommandGroup> command_groups(const CommandDescription& command);

// What is added to an option's own help: the built-in value, and the possible values if the help does not name them.
std::string option_help(const OptionDescription& option);

// A sentence at the end of every help and man page.
std::string_view exit_code_sentence();

}  // namespace muster::cli
