#include "cli/man_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.hpp"
#include "cli/help_text.hpp"

namespace muster::cli {
namespace {

// Plain text as roff prints it verbatim: its escapes, a hyphen that stays one, and no request at the start of a line.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\')
      escaped += "\\e";
    else if (letter == '-')
      escaped += "\\-";
    else if (letter == '\'')
      escaped += "\\(aq";
    else if (letter == '\n')
      escaped += "\n.br\n";
    else
      escaped += letter;
  }
  if (escaped.starts_with('.')) escaped.insert(0, "\\&");
  return escaped;
}

std::string hyphenated(const CommandDescription& command) {
  std::string name = command.spoken;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string entry(std::string_view heading, std::string_view help) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(heading), roff(help));
}

std::string see_also(const CommandDescription& command, const CommandDescription& program) {
  std::vector<std::string> pages;
  const auto add = [&](const CommandDescription& other) {
    if (other.spoken != command.spoken) pages.push_back(fmt::format(".BR {} (1)", roff(hyphenated(other))));
  };
  add(program);
  for (const CommandDescription& below : command.commands) add(below);
  if (&command != &program)
    for (const CommandDescription& other : program.commands)
      if (command.spoken.starts_with(other.spoken + " ")) add(other);
  std::string text = ".SH SEE ALSO\n";
  for (std::size_t i = 0; i < pages.size(); ++i) text += pages[i] + (i + 1 < pages.size() ? " ,\n" : "\n");
  return pages.empty() ? "" : text;
}

}  // namespace

std::string man_page_name(const CommandDescription& command) { return hyphenated(command) + ".1"; }

std::string man_page(const CommandDescription& command, const CommandDescription& program) {
  const std::string name = hyphenated(command);
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](unsigned char letter) { return std::toupper(letter); });
  std::string text =
      fmt::format(".TH {} 1 \"\" \"muster {}\" \"User Commands\"\n", roff(title), MUSTER_VERSION);
  text += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n", roff(name), roff(command.purpose),
                      roff(usage(command)));
  if (!command.notes.empty()) text += fmt::format(".SH DESCRIPTION\n{}\n", roff(command.notes));
  if (const auto positionals = command.positionals(); !positionals.empty()) {
    text += ".SH ARGUMENTS\n";
    for (const OptionDescription* one : positionals) text += entry(option_heading(*one), option_help(*one));
  }
  if (!command.commands.empty()) text += ".SH COMMANDS\n";
  for (const CommandGroup& group : command_groups(command)) {
    if (to_lower(group.name) != "subcommands") text += fmt::format(".SS {}\n", roff(group.name));
    for (const CommandDescription* below : group.commands) text += entry(below->spoken, below->purpose);
  }
  text += ".SH OPTIONS\n";
  for (const OptionGroup& group : option_groups(command)) {
    if (to_lower(group.name) != "options") text += fmt::format(".SS {}\n", roff(group.name));
    for (const OptionDescription* option : group.options) text += entry(option_heading(*option), option_help(*option));
  }
  if (!command.examples.empty()) text += ".SH EXAMPLES\n";
  for (const Example& example : command.examples)
    text += fmt::format(".TP\n{}\n.nf\n.B {}\n.fi\n", roff(example.meaning), roff(example.line));
  text += fmt::format(".SH EXIT STATUS\n{}\n", roff(exit_code_sentence()));
  return text + see_also(command, program);
}

}  // namespace muster::cli
