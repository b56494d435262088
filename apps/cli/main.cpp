#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "cli/command.hpp"

namespace {

struct Command {
  std::string_view name;
  void (*add)(CLI::App& program, muster::cli::Action& action);
};

constexpr std::array commands{
    Command{"gpus", muster::cli::add_gpus_command},
    Command{"doctor", muster::cli::add_doctor_command},
    Command{"config", muster::cli::add_config_command},
    Command{"train", muster::cli::add_train_command},
};

bool is_command(std::string_view name) {
  return std::ranges::any_of(commands, [&](const Command& command) { return command.name == name; });
}

// Only the command that is named is built, so that it answers at once; all of them where none is.
void add_commands(CLI::App& program, muster::cli::Action& action, std::string_view named) {
  for (const Command& command : commands)
    if (!is_command(named) || command.name == named) command.add(program, action);
}

int run(std::vector<std::string> own, const muster::cli::Tail& tail, bool has_tail) {
  CLI::App program("muster turns the GPUs you have into finished language-model work.", "muster");
  program.set_version_flag("--version", "muster " MUSTER_VERSION);
  program.require_subcommand(1);
  program.get_formatter()->column_width(34);
  program.footer(
      "muster COMMAND --help explains a command. Exit codes: 0 done, 1 failed, 2 bad input, 3 refused (busy, does not "
      "fit).");
  muster::cli::Action action;
  add_commands(program, action, own.empty() ? "" : own.front());
  if (own.empty()) {
    std::cout << program.help();
    return 2;
  }
  if (const std::string& named = own.front(); !named.starts_with('-') && !is_command(named)) {
    std::vector<std::string> known;
    for (const Command& command : commands) known.emplace_back(command.name);
    const auto near = muster::nearest(named, known);
    return muster::cli::report({muster::Error::Kind::bad_input, fmt::format("there is no command \"{}\"", named),
                                near ? fmt::format("muster {}", *near) : "muster --help lists the commands"});
  }
  try {
    std::ranges::reverse(own);  // as CLI11 wants them
    program.parse(std::move(own));
    if (has_tail && !action.takes_tail) throw CLI::ExtrasError({"--"});
  } catch (const CLI::Success& help) {
    return program.exit(help);  // --help and --version
  } catch (const CLI::ParseError& error) {
    return muster::cli::report({muster::Error::Kind::bad_input, error.what(),
                                "muster --help lists the commands, muster COMMAND --help its options"});
  }
  return action.run(tail);
}

}  // namespace

// The one door: an exception that reaches it is a bug or a machine out of memory.
int main(int argc, char** argv) try {
  std::vector<std::string> own(argv + 1, argv + argc);
  const auto separator = std::ranges::find(own, "--");
  const bool has_tail = separator != own.end();
  const muster::cli::Tail tail(has_tail ? separator + 1 : own.end(), own.end());
  own.erase(separator, own.end());
  return run(std::move(own), tail, has_tail);
} catch (const std::exception& error) {
  fmt::print(stderr, "muster: internal error: {}\n", error.what());
  return 1;
}
