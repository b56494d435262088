#include "cli/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/one_line.hpp"
#include "base/text.hpp"
#include "spec/schema.hpp"

namespace muster::cli {
namespace {

// What the words before the last one mean.
struct Position {
  const CommandDescription* command;
  const OptionDescription* expecting = nullptr;  // the option whose value comes next
  std::size_t positionals = 0;
  bool is_after_separator = false;  // another program's words
};

bool is_launched(const Position& position) {
  return position.is_after_separator || (position.command->spoken == "muster launch" && position.positionals > 0);
}

Position read(const CommandDescription& program, std::span<const std::string> words) {
  Position position{&program};
  int taken = 0;
  for (const std::string& word : words) {
    const bool is_option = word.starts_with('-') && word != "-";
    if (position.expecting != nullptr && (!is_option || taken < position.expecting->least)) {
      if (++taken >= position.expecting->most) position.expecting = nullptr;
      continue;
    }
    position.expecting = nullptr;
    if (is_launched(position)) continue;
    if (word == "--") {
      position.is_after_separator = true;
    } else if (is_option) {
      const OptionDescription* option = position.command->find_option(word);
      taken = 0;
      if (option != nullptr && option->most > 0 && !option->value.starts_with('[')) position.expecting = option;
    } else if (const CommandDescription* below = position.command->find_command(word)) {
      position.command = below;
    } else {
      ++position.positionals;
    }
  }
  return position;
}

bool takes_settings(const CommandDescription& command) {
  return std::ranges::any_of(command.positionals(), [](const OptionDescription* positional) {
    const std::string& name = positional->names.front();
    return name == "SETTINGS" || name == "WORDS" || name == "EXPERIMENT";
  });
}

class Collector {
 public:
  explicit Collector(std::string_view typed) : typed_(typed) {}

  void offer(std::string word, std::string_view help) {
    if (word.starts_with(typed_)) found_.candidates.push_back({std::move(word), std::string(help)});
  }
  void offer_files() { found_.files = true; }

  void offer_values(const OptionDescription& option, const std::string& before = "") {
    for (const std::string& choice : option.choices) offer(before + choice, "");
    if (option.choices.empty() && option.value != "N" && option.value != "NUMBER") offer_files();
  }

  void offer_options(const CommandDescription& command) {
    for (const OptionDescription& option : command.options)
      if (!option.is_positional) offer(option.names.back(), option.help);
  }

  // First the sections, "training."; then their keys, "training.max_steps="; then the values of a closed set.
  void offer_settings() {
    const spec::Schema schema;
    if (const auto equals = typed_.find('='); equals != std::string_view::npos) {
      const spec::Field* field = schema.find(typed_.substr(0, equals));
      if (field != nullptr && field->is_choice)
        for (const std::string& value : split(field->accepted, ','))
          offer(fmt::format("{}={}", field->key, trim(value)), "");
      else
        offer_files();
      return;
    }
    const bool is_in_section = typed_.find('.') != std::string_view::npos;
    std::set<std::string> sections;
    for (const spec::Field& field : schema.fields()) {
      if (is_in_section)
        offer(field.key + "=", field.help);
      else if (sections.insert(field.key.substr(0, field.key.find('.') + 1)).second)
        offer(field.key.substr(0, field.key.find('.') + 1), "settings");
    }
  }

  Completion take() { return std::move(found_); }

 private:
  std::string_view typed_;
  Completion found_;
};

}  // namespace

Completion complete(const CommandDescription& program, std::span<const std::string> words) {
  const std::string typed = words.empty() ? "" : words.back();
  const Position position = read(program, words.first(words.empty() ? 0 : words.size() - 1));
  Collector collector(typed);
  if (position.expecting != nullptr) {
    collector.offer_values(*position.expecting);
  } else if (is_launched(position)) {
    collector.offer_files();
  } else if (const auto equals = typed.find('='); typed.starts_with("--") && equals != std::string::npos) {
    if (const OptionDescription* option = position.command->find_option(typed.substr(0, equals)))
      collector.offer_values(*option, typed.substr(0, equals + 1));
  } else if (typed.starts_with('-')) {
    collector.offer_options(*position.command);
  } else {
    if (position.positionals == 0)
      for (const CommandDescription& below : position.command->commands) collector.offer(below.name, below.purpose);
    const std::vector<const OptionDescription*> positionals = position.command->positionals();
    if (takes_settings(*position.command)) collector.offer_settings();
    if (!positionals.empty())
      collector.offer_values(*positionals[std::min(position.positionals, positionals.size() - 1)]);
    else if (position.command->spoken == "muster launch")
      collector.offer_files();
  }
  return collector.take();
}

std::string completion_lines(const Completion& completion) {
  constexpr std::size_t longest_help = 100;
  std::string text;
  for (const Candidate& candidate : completion.candidates)
    text += fmt::format("{}\t{}\n", candidate.word, on_one_line(candidate.help, longest_help));
  return completion.files ? text + ":files\n" : text;
}

}  // namespace muster::cli
