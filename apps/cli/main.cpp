#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clean_text.hpp"
#include "base/text.hpp"
#include "cli/command_description.hpp"
#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/help_text.hpp"
#include "cli/terminal.hpp"

namespace {

using muster::Result;
using muster::cli::Command;
using muster::cli::CommandLine;

// At the first lone --.
Result<CommandLine> cut_at_separator(const std::vector<std::string>& words) {
  const auto separator = std::ranges::find(words, "--");
  CommandLine line{{words.begin(), separator}, {}};
  line.tail.separated = separator != words.end();
  if (line.tail.separated) line.tail.words.assign(separator + 1, words.end());
  return line;
}

int refuse_unknown(const std::string& word) {
  std::vector<std::string> known{"help"};
  for (const Command& command : muster::cli::commands()) known.emplace_back(command.name);
  const auto near = muster::nearest(word, known);
  return muster::cli::report({muster::Error::Kind::bad_input, fmt::format("there is no command \"{}\"", word),
                              near ? fmt::format("muster {}; muster --help lists the commands", *near)
                                   : "muster --help lists the commands"});
}

// The command that was named, however deep, and the words that name it.
struct NamedApp {
  const CLI::App* app;
  std::string spoken;
};

NamedApp named_app(const CLI::App& program) {
  NamedApp named{&program, program.get_name()};
  while (!named.app->get_subcommands().empty()) {
    named.app = named.app->get_subcommands().front();
    named.spoken += " " + named.app->get_name();
  }
  return named;
}

// An option or word that nothing accepts: the first that was typed, and what was probably meant.
muster::Error unexpected_word(const CLI::App& program, const std::vector<std::string>& words) {
  const auto [app, spoken] = named_app(program);
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

int print_help(const CLI::App& program) {
  const auto [app, spoken] = named_app(program);
  const std::string parents = app == &program ? "" : spoken.substr(0, spoken.size() - app->get_name().size() - 1);
  fmt::print("{}", muster::cli::help_text(muster::cli::describe(*app, parents), muster::cli::output_width()));
  return 0;
}

// What completion scripts call. The words are not parsed: they are unfinished.
int print_completion(std::span<const std::string> words) {
  const bool is_first = words.size() < 2;
  if (!is_first && words.front() == "help") return print_completion(words.subspan(1));
  muster::cli::Action unused;
  const Command* named = is_first ? nullptr : muster::cli::find_command(words.front());
  const auto program = muster::cli::describe(*muster::cli::make_program(unused, named));
  auto found = muster::cli::complete(program, words);
  if (is_first && !words.empty() && std::string_view("help").starts_with(words.front()))
    found.candidates.push_back({"help", "explain a command"});
  fmt::print("{}", muster::cli::completion_lines(found));
  return 0;
}

// "help gpus pick" means "gpus pick --help".
std::vector<std::string> without_help_word(std::vector<std::string> words) {
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

int parse_and_run(CLI::App& program, const muster::cli::Action& action, const Command* command,
                  const std::vector<std::string>& words) {
  auto line = command == nullptr || command->cut == nullptr
                  ? cut_at_separator(words)
                  : command->cut(*program.get_subcommand(std::string(command->name)), words);
  if (!line) return muster::cli::report(line.error());
  try {
    std::ranges::reverse(line->own);  // as CLI11 wants them
    program.parse(std::move(line->own));
    if (line->tail.separated && !action.takes_tail) throw CLI::ExtrasError({"--"});
  } catch (const CLI::CallForHelp&) {
    return print_help(program);
  } catch (const CLI::Success& version) {
    return program.exit(version);
  } catch (const CLI::ExtrasError&) {
    return muster::cli::report(unexpected_word(program, words));
  } catch (const CLI::ParseError& error) {
    return muster::cli::report(
        {muster::Error::Kind::bad_input, error.what(),
         command == nullptr ? "muster --help lists the commands" : fmt::format("muster {} --help", command->name)});
  }
  return action.run(line->tail);
}

int run(const std::vector<std::string>& typed) {
  if (!typed.empty() && typed.front() == "complete") return print_completion(std::span(typed).subspan(1));
  const std::vector<std::string> words = without_help_word(typed);
  const Command* command = words.empty() ? nullptr : muster::cli::find_command(words.front());
  if (command == nullptr && !words.empty() && !words.front().starts_with('-')) return refuse_unknown(words.front());
  muster::cli::Action action;
  const auto program = muster::cli::make_program(action, command);
  if (words.empty()) {
    print_help(*program);
    return 2;
  }
  return parse_and_run(*program, action, command, words);
}

}  // namespace

// The last resort: an exception that gets here is a bug or a machine out of memory.
int main(int argc, char** argv) try { return run({argv + 1, argv + argc}); } catch (const std::exception& error) {
  fmt::print(stderr, "muster: internal error: {}\n", muster::printable_lines(error.what()));
  return 1;
}
