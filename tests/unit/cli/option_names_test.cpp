// Names of options, of all commands, hidden ones included. CLI11 from 2.4 on refuses names that earlier versions take,
// and a command with such a name does not start at all: so the strictest rule is held here, whichever version is used.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"

namespace muster::cli {
namespace {

// The rule of CLI11 2.6: no blank and no control character; neither '-' nor '!' at the beginning; none of = : { in it.
bool is_accepted(std::string_view name) {
  if (name.empty() || name.front() == '-' || name.front() == '!') return false;
  return std::ranges::all_of(name, [](unsigned char c) { return c > 32 && c != 127 && c != '=' && c != ':' && c != '{'; });
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names = option.get_lnames();
  names.insert(names.end(), option.get_snames().begin(), option.get_snames().end());
  if (option.get_positional()) names.push_back(option.get_name(true));
  return names;
}

// The options of a command and all below it: "gpus await-memory: GPU=BYTES".
void collect_refused(const CLI::App& app, const std::string& path, int& seen, std::vector<std::string>& refused) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : names_of(*option)) {
      ++seen;
      if (!is_accepted(name)) refused.push_back(path + ": " + name);
    }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!is_accepted(below->get_name())) refused.push_back(path + ": " + below->get_name());
    collect_refused(*below, path + " " + below->get_name(), seen, refused);
  }
}

TEST(OptionNames, AreAcceptedByEveryVersionOfTheLibrary) {
  Action action;
  const auto program = make_program(action, nullptr);
  int seen = 0;
  std::vector<std::string> refused;
  collect_refused(*program, "muster", seen, refused);
  EXPECT_GT(seen, 100);
  EXPECT_EQ(refused, std::vector<std::string>{});
}

TEST(OptionNames, OfHiddenCommandsAreAmongThem) {
  Action action;
  const auto program = make_program(action, nullptr);
  EXPECT_EQ(program->get_subcommand("gpus")->get_subcommand("await-memory")->get_name(), "await-memory");
}

TEST(OptionNames, WithAnEqualsSignOrABlankAreFoundOut) {
  for (const char* name : {"GPU=BYTES", "A B", "a:b", "{x}", "!no", "-n", ""}) EXPECT_FALSE(is_accepted(name)) << name;
  for (const char* name : {"GPUS_PER_RUN", "num-gpus", "n", "section.key"}) EXPECT_TRUE(is_accepted(name)) << name;
}

}  // namespace
}  // namespace muster::cli
