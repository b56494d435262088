#include "cli/help_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.hpp"
#include "base/text.hpp"

namespace muster::cli {
namespace {

constexpr std::size_t narrowest = 40, widest = 120;

// Lines of at most width columns, broken between words; a longer word gets its own line.
std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string& paragraph : split(text, '\n')) {
    std::string line;
    for (const std::string& word : split(paragraph, ' ')) {
      if (!line.empty() && display_width(line) + 1 + display_width(word) > width) {
        lines.push_back(std::move(line));
        line.clear();
      }
      line += line.empty() ? word : " " + word;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

struct Entry {
  std::string heading, help;
};

// Headings to the left and help to the right of a gap; on a narrow terminal, or below a long heading, help has lines of its own.
std::string lay_out(const std::vector<Entry>& entries, std::size_t width) {
  const std::size_t most = std::clamp<std::size_t>(width / 3, 12, 32);
  std::size_t column = 0;
  for (const Entry& entry : entries)
    if (const std::size_t needed = display_width(entry.heading); needed <= most) column = std::max(column, needed);
  const std::size_t indentation = width < 60 || column == 0 ? 6 : column + 4;
  std::string text;
  for (const Entry& entry : entries) {
    const std::size_t heading = display_width(entry.heading);
    const bool is_beside = indentation > 6 && heading <= column;
    text += "  " + entry.heading;
    bool is_first = is_beside;
    for (const std::string& line : wrap(entry.help, width - indentation)) {
      if (line.empty()) continue;
      text += is_first ? std::string(indentation - 2 - heading, ' ') : "\n" + std::string(indentation, ' ');
      text += line;
      is_first = false;
    }
    text += "\n";
  }
  return text;
}

std::string section(std::string_view title, const std::vector<Entry>& entries, std::size_t width) {
  return entries.empty() ? "" : fmt::format("\n{}:\n{}", title, lay_out(entries, width));
}

std::string paragraphs(std::string_view text, std::size_t width) {
  std::string wrapped;
  for (const std::string& line : wrap(text, width)) wrapped += line + "\n";
  return wrapped;
}

template <class Group, class Item>
Group& group_named(std::vector<Group>& groups, const std::string& name, std::vector<Item> Group::*) {
  const auto found = std::ranges::find(groups, name, &Group::name);
  if (found != groups.end()) return *found;
  groups.push_back({name, {}});
  return groups.back();
}

std::string examples_section(const CommandDescription& command, std::size_t width) {
  if (command.examples.empty()) return "";
  std::string text = "\nExamples:\n";
  for (const Example& example : command.examples) {
    const std::string line = fmt::format("  {}", example.line), meaning = fmt::format("# {}", example.meaning);
    text += display_width(line) + 3 + display_width(meaning) <= width
                ? fmt::format("{}   {}\n", line, meaning)
                : fmt::format("  {}\n{}\n", meaning, line);
  }
  return text;
}

}  // namespace

std::string_view exit_code_sentence() {
  return "Exit codes: 0 done, 1 failed, 2 bad input, 3 refused (busy, or does not fit), 130 and 143 interrupted.";
}

std::string option_heading(const OptionDescription& option) {
  std::string text = join(option.names, ", ");
  if (option.is_positional) return text + (option.most > 1 ? "..." : "");
  if (option.value.starts_with('['))
    text += "[=" + option.value.substr(1);
  else if (!option.value.empty())
    text += " " + option.value;
  return text + (option.most > 1 ? "..." : "");
}

std::string option_help(const OptionDescription& option) {
  std::string text = option.help;
  const bool named = std::ranges::all_of(
      option.choices, [&](const std::string& choice) { return option.help.find(choice) != std::string::npos; });
  if (!named) text += fmt::format("{}{}", text.empty() ? "" : ": ", join(option.choices, ", "));
  if (!option.fallback.empty()) text += fmt::format(" (default: {})", option.fallback);
  return text;
}

std::vector<OptionGroup> option_groups(const CommandDescription& command) {
  std::vector<OptionGroup> groups;
  for (const OptionDescription& option : command.options)
    if (!option.is_positional) group_named(groups, option.group, &OptionGroup::options).options.push_back(&option);
  std::ranges::stable_partition(groups, [](const OptionGroup& group) { return to_lower(group.name) == "options"; });
  return groups;
}

std::vector<CommandGroup> command_groups(const CommandDescription& command) {
  std::vector<CommandGroup> groups;
  for (const CommandDescription& below : command.commands)
    group_named(groups, below.group, &CommandGroup::commands).commands.push_back(&below);
  return groups;
}

std::string help_text(const CommandDescription& command, std::size_t terminal) {
  const std::size_t width = std::clamp(terminal, narrowest, widest);
  std::string text = paragraphs(command.purpose, width);
  text += paragraphs("\nUsage: " + usage(command), width);
  std::vector<Entry> arguments;
  for (const OptionDescription* positional : command.positionals())
    arguments.push_back({option_heading(*positional), option_help(*positional)});
  text += section("Arguments", arguments, width);
  for (const CommandGroup& group : command_groups(command)) {
    std::vector<Entry> entries;
    for (const CommandDescription* below : group.commands) entries.push_back({below->name, below->purpose});
    text += section(to_lower(group.name) == "subcommands" ? "Commands" : group.name, entries, width);
  }
  for (const OptionGroup& group : option_groups(command)) {
    std::vector<Entry> entries;
    for (const OptionDescription* option : group.options)
      entries.push_back({option_heading(*option), option_help(*option)});
    text += section(to_lower(group.name) == "options" ? "Options" : group.name, entries, width);
  }
  text += examples_section(command, width);
  if (!command.notes.empty()) text += "\n" + paragraphs(command.notes, width);
  if (!command.commands.empty())
    text += paragraphs(fmt::format("\n{} COMMAND --help explains a command.", command.spoken), width);
  if (command.notes.find("Exit codes:") != std::string::npos) return text;  // its own
  return text + (command.commands.empty() ? "\n" : "") + paragraphs(exit_code_sentence(), width);
}

}  // namespace muster::cli
