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

using muster::Result;
using muster::cli::CommandLine;

// At the first lone --.
Result<CommandLine> cut_at_separator(const CLI::App&, const std::vector<std::string>& words) {
  const auto separator = std::ranges::find(words, "--");
  CommandLine line{{words.begin(), separator}, {}};
  line.tail.separated = separator != words.end();
  if (line.tail.separated) line.tail.words.assign(separator + 1, words.end());
  return line;
}

struct Command {
  std::string_view name;
  void (*add)(CLI::App& program, muster::cli::Action& action);
  Result<CommandLine> (*cut)(const CLI::App& command, const std::vector<std::string>& words) = cut_at_separator;
};

constexpr std::array commands{
    Command{"gpus", muster::cli::add_gpus_command},
    Command{"doctor", muster::cli::add_doctor_command},
    Command{"config", muster::cli::add_config_command},
    Command{"launch", muster::cli::add_launch_command, muster::cli::cut_launch_line},
    Command{"plan", muster::cli::add_plan_command},
    Command{"model", muster::cli::add_model_command},
    Command{"generate", muster::cli::add_generate_command},
    Command{"tokenize", muster::cli::add_tokenize_command},
    Command{"train", muster::cli::add_train_command},
    Command{"evaluate", muster::cli::add_evaluate_command},
    Command{"run", muster::cli::add_run_command},
    Command{"runs", muster::cli::add_runs_command},
    Command{"submit", muster::cli::add_submit_command},
    Command{"queue", muster::cli::add_queue_command},
    Command{"logs", muster::cli::add_logs_command},
    Command{"stop", muster::cli::add_stop_command},
    Command{"wait", muster::cli::add_wait_command},
    Command{"top", muster::cli::add_top_command},
    Command{"sweep", muster::cli::add_sweep_command},
    Command{"sweep-multi", muster::cli::add_sweep_multi_command},
};

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find(commands, name, &Command::name);
  return found == commands.end() ? nullptr : &*found;
}

// Only the command that is named is built, so that it answers at once; all of them where none is.
void add_commands(CLI::App& program, muster::cli::Action& action, const Command* named) {
  for (const Command& command : commands)
    if (named == nullptr || named == &command) command.add(program, action);
}

int refuse_unknown(const std::string& word) {
  std::vector<std::string> known;
  for (const Command& command : commands) known.emplace_back(command.name);
  const auto near = muster::nearest(word, known);
  return muster::cli::report({muster::Error::Kind::bad_input, fmt::format("there is no command \"{}\"", word),
                              near ? fmt::format("muster {}", *near) : "muster --help lists the commands"});
}

// Of an option or word that nothing takes: the first that was typed, and what was probably meant.
muster::Error unexpected_word(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* app = &program;
  std::string spoken = "muster";
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    spoken += " " + app->get_name();
  }
  const std::vector<std::string> left = program.remaining(true);
  const auto word =
      std::ranges::find_if(words, [&](const std::string& one) { return std::ranges::find(left, one) != left.end(); });
  if (word == words.end()) return {muster::Error::Kind::bad_input, "-- is not expected", spoken + " --help"};
  const bool is_option = word->starts_with('-');
  std::vector<std::string> known;
  if (is_option) {
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  } else {
    for (const CLI::App* below : app->get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(below->get_name());
  }
  const auto near = muster::nearest(word->substr(0, word->find('=')), known);
  std::string remedy = spoken + " --help";
  if (near) remedy = fmt::format("{}; {} explains it", is_option ? *near : fmt::format("{} {}", spoken, *near), remedy);
  if (!is_option && spoken == "muster submit")
    remedy = fmt::format("a command stands after --: muster submit -- {} …", *word);
  return {muster::Error::Kind::bad_input,
          is_option ? fmt::format("{} has no option {}", spoken, *word) : fmt::format("\"{}\" is not expected", *word),
          std::move(remedy)};
}

int run(const std::vector<std::string>& words) {
  CLI::App program("muster turns the GPUs you have into finished language-model work.", "muster");
  program.set_version_flag("--version", "muster " MUSTER_VERSION);
  program.require_subcommand(1);
  program.get_formatter()->column_width(34);
  program.footer(
      "muster COMMAND --help explains a command. Exit codes: 0 done, 1 failed, 2 bad input, 3 refused (busy, does not "
      "fit).");
  muster::cli::Action action;
  const Command* command = words.empty() ? nullptr : find_command(words.front());
  add_commands(program, action, command);
  if (words.empty()) {
    std::cout << program.help();
    return 2;
  }
  if (command == nullptr && !words.front().starts_with('-')) return refuse_unknown(words.front());
  auto line = command == nullptr ? cut_at_separator(program, words)
                                 : command->cut(*program.get_subcommand(std::string(command->name)), words);
  if (!line) return muster::cli::report(line.error());
  try {
    std::ranges::reverse(line->own);  // as CLI11 wants them
    program.parse(std::move(line->own));
    if (line->tail.separated && !action.takes_tail) throw CLI::ExtrasError({"--"});
  } catch (const CLI::Success& help) {
    return program.exit(help);  // --help and --version
  } catch (const CLI::ExtrasError&) {
    return muster::cli::report(unexpected_word(program, words));
  } catch (const CLI::ParseError& error) {
    return muster::cli::report(
        {muster::Error::Kind::bad_input, error.what(),
         command == nullptr ? "muster --help lists the commands" : fmt::format("muster {} --help", command->name)});
  }
  return action.run(line->tail);
}

}  // namespace

// The one door: an exception that reaches it is a bug or a machine out of memory.
int main(int argc, char** argv) try { return run({argv + 1, argv + argc}); } catch (const std::exception& error) {
  fmt::print(stderr, "muster: internal error: {}\n", error.what());
  return 1;
}
