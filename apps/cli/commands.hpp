// The table of commands, and the parser made from it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"

namespace muster::cli {

// muster completion and muster man, which are about the others.
void add_completion_command(CLI::App& program, Action& action);
void add_man_command(CLI::App& program, Action& action);

struct Command {
  std::string_view name;
  std::string_view group;  // its heading in muster --help
  void (*add)(CLI::App& program, Action& action);
  // Where the command's own words end and another program's begin; nothing: at the first lone --.
  Result<CommandLine> (*cut)(const CLI::App& command, const std::vector<std::string>& words) = nullptr;
};

std::span<const Command> commands();
const Command* find_command(std::string_view name);

// A parser of one command, which is built quickly; of all of them if none is named. action outlives it.
std::unique_ptr<CLI::App> make_program(Action& action, const Command* named);

}  // namespace muster::cli
