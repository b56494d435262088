#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace {

int run(int argc, char** argv) {
  // What follows a lone -- is the command line of another program and is not looked at.
  std::vector<std::string> own, tail;
  bool is_tail = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!is_tail && argument == "--")
      is_tail = true;
    else
      (is_tail ? tail : own).push_back(argument);
  }

  CLI::App program("muster turns the GPUs you have into finished language-model work.", "muster");
  program.set_version_flag("--version", "muster " MUSTER_VERSION);
  program.require_subcommand(1);
  program.get_formatter()->column_width(34);
  program.footer("muster COMMAND --help explains a command. Exit codes: 0 done, 1 failed, 2 bad input, 3 refused (busy, does not fit).");

  muster::cli::Action action;
  muster::cli::add_gpus_command(program, action, tail);
  muster::cli::add_doctor_command(program, action);
  muster::cli::add_config_command(program, action);
  muster::cli::add_train_command(program, action);
  try {
    std::vector<std::string> reversed(own.rbegin(), own.rend());  // as CLI11 wants them
    program.parse(reversed);
    if (is_tail && !program.got_subcommand("gpus")) throw CLI::ExtrasError({"--"});
  } catch (const CLI::Success& help) {
    return program.exit(help);  // --help and --version
  } catch (const CLI::ParseError& error) {
    if (own.empty()) {
      std::cout << program.help();
      return 2;
    }
    return muster::cli::report({muster::Error::Kind::bad_input, error.what(), "muster --help lists the commands, muster COMMAND --help its options"});
  }
  return action();
}

}  // namespace

// The one door: an exception that reaches it is a bug or a machine out of memory.
int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& error) {
  fmt::print(stderr, "muster: internal error: {}\n", error.what());
  return 1;
}
