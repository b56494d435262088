#include "cli/command_description.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "job/generate/generate_options.hpp"
#include "planning/plan_options.hpp"
#include "spec/alias.hpp"
#include "spec/schema.hpp"

namespace muster::cli {
namespace {

// Options whose value is a file or folder, by their last name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> paths{
    {{"--config", "FILE"},
     {"--constants", "FILE"},
     {"--data", "FILE"},
     {"--gpus-from", "FILE"},
     {"--log-dir", "FOLDER"},
     {"--model", "MODEL"},
     {"--output", "FOLDER"},
     {"--patch", "FILE"},
     {"--plot", "FILE"},
     {"--prompts", "FILE"},
     {"--questions", "FILE"},
     {"--svg", "FILE"},
     {"-o", "FILE"}}};

// The setting that an option of this command is short for; empty: none.
std::string_view key_of(const std::string& command, const std::string& option) {
  if (command == "muster generate")
    for (const job::GenerateSetting& setting : job::generate_settings())
      if (setting.option == option) return setting.key;
  if (command == "muster plan")
    for (const planning::PlanSetting& setting : planning::plan_settings())
      if (setting.option == option) return setting.training_key;
  for (const spec::ShortOption& shortened : spec::short_options())
    if (shortened.option == option) return shortened.key;
  return {};
}

std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words;
  for (const std::string& word : split(list, ',')) words.emplace_back(trim(word));
  return words;
}

// From a check for membership, "TEXT:{auto,cpu}", or from the setting that the option is short for.
std::vector<std::string> choices_of(const CLI::Option& option, std::string_view key) {
  const std::string type = option.get_type_name();
  const auto begin = type.find('{'), end = type.rfind('}');
  if (begin != std::string::npos && end != std::string::npos && begin < end)
    return words_of(std::string_view(type).substr(begin + 1, end - begin - 1));
  if (key.empty()) return {};
  static const spec::Schema schema;
  const spec::Field* field = schema.find(key);
  return field != nullptr && field->is_choice ? words_of(field->accepted) : std::vector<std::string>{};
}

std::string value_word(const CLI::Option& option, const std::string& name) {
  const auto path = std::ranges::find(paths, name, [](const auto& entry) { return entry.first; });
  if (path != paths.end()) return std::string(path->second);
  const std::string type = option.get_type_name();
  if (type.starts_with('[')) return type;  // a value that may be omitted says so itself
  if (type.starts_with("INT") || type.starts_with("UINT")) return "N";
  return type.starts_with("FLOAT") ? "NUMBER" : "VALUE";
}

OptionDescription describe_option(const CLI::Option& option, const std::string& command, bool is_shared) {
  OptionDescription described;
  for (const std::string& letter : option.get_snames()) described.names.push_back("-" + letter);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  described.is_positional = described.names.empty();
  if (described.is_positional) described.names.push_back(option.get_name());
  described.help = option.get_description();
  described.group = option.get_group();
  described.required = option.get_required();
  described.least = option.get_expected_min();
  described.most = option.get_expected_max();
  if (described.most == 0) return described;
  const std::string& name = described.names.back();
  described.choices = choices_of(option, is_shared ? key_of(command, name) : std::string_view{});
  described.value = described.is_positional ? name : value_word(option, name);
  described.fallback = option.get_default_str();
  return described;
}

}  // namespace

const CommandDescription* CommandDescription::find_command(std::string_view wanted) const {
  const auto found = std::ranges::find(commands, wanted, &CommandDescription::name);
  return found == commands.end() ? nullptr : &*found;
}

const OptionDescription* CommandDescription::find_option(std::string_view wanted) const {
  const auto found = std::ranges::find_if(options, [&](const OptionDescription& option) {
    return !option.is_positional && std::ranges::find(option.names, wanted) != option.names.end();
  });
  return found == options.end() ? nullptr : &*found;
}

std::vector<const OptionDescription*> CommandDescription::positionals() const {
  std::vector<const OptionDescription*> found;
  for (const OptionDescription& option : options)
    if (option.is_positional) found.push_back(&option);
  return found;
}

CommandDescription describe(const CLI::App& command, const std::string& parents) {
  CommandDescription described;
  described.name = command.get_name();
  described.spoken = parents.empty() ? described.name : parents + " " + described.name;
  described.purpose = command.get_description();
  described.group = command.get_group();
  described.needs_command = command.get_require_subcommand_min() > 0;
  described.examples = examples_of(described.spoken);
  if (!parents.empty()) described.notes = command.get_footer();
  // Only these commands have options that are short for settings.
  const bool is_shared = command.get_option_no_throw("--config") != nullptr;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty())
      described.options.push_back(describe_option(*option, described.spoken, is_shared));
  for (const CLI::App* below : command.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    described.commands.push_back(describe(*below, described.spoken));
  return described;
}

std::string usage(const CommandDescription& command) {
  std::string text = command.spoken + " [OPTIONS]";
  for (const OptionDescription* positional : command.positionals()) {
    const std::string name = positional->names.front() + (positional->most > 1 ? "..." : "");
    text += positional->required ? " " + name : " [" + name + "]";
  }
  if (!command.commands.empty()) text += command.needs_command ? " COMMAND" : " [COMMAND]";
  return text;
}

}  // namespace muster::cli
