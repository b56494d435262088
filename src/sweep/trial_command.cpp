#include "sweep/trial_command.hpp"

#include <fmt/format.h>

#include <array>

namespace muster::sweep {
namespace {

constexpr std::array<std::string_view, 4> argument_lists{"args", "args_no_hyphens", "args_no_boolean_flags",
                                                         "args_json"};
constexpr std::array<std::string_view, 3> single_words{"program", "env", "interpreter"};

template <std::size_t Count>
bool is_one_of(const std::array<std::string_view, Count>& names, std::string_view name) {
  for (const std::string_view known : names)
    if (known == name) return true;
  return false;
}

// Where a ${…} begins and ends, from a place on.
struct Span {
  std::size_t begin, end;
  std::string_view name;
};

std::optional<Span> next_span(std::string_view word, std::size_t from) {
  const std::size_t begin = word.find("${", from);
  const std::size_t end = begin == std::string_view::npos ? begin : word.find('}', begin);
  if (end == std::string_view::npos) return std::nullopt;
  return Span{begin, end + 1, word.substr(begin + 2, end - begin - 2)};
}

std::vector<std::string> arguments(std::string_view name, const Settings& settings) {
  if (name == "args_json") return {to_json(settings).dump()};
  std::vector<std::string> words;
  for (const Setting& setting : settings) {
    const bool* flag = std::get_if<bool>(&setting.value);
    if (name == "args_no_boolean_flags" && flag != nullptr) {
      if (*flag) words.push_back("--" + setting.path);
      continue;
    }
    words.push_back(
        fmt::format("{}{}={}", name == "args_no_hyphens" ? "" : "--", setting.path, to_text(setting.value)));
  }
  return words;
}

Result<std::string> replaced(std::string_view word, const TrialCommand& surroundings) {
  std::string out;
  std::size_t done = 0;
  while (const auto span = next_span(word, done)) {
    out += word.substr(done, span->begin - done);
    if (span->name == "program") out += surroundings.program;
    if (span->name == "env") out += "/usr/bin/env";
    if (span->name == "interpreter") out += "python";
    if (span->name.starts_with("envvar:")) {
      const auto value = surroundings.environment ? surroundings.environment(span->name.substr(7)) : std::nullopt;
      if (!value)
        return Error{Error::Kind::bad_input,
                     fmt::format("the command names {}, which is not set", span->name.substr(7)),
                     fmt::format("set it, as in export {}=…", span->name.substr(7))};
      out += *value;
    }
    done = span->end;
  }
  return out + std::string(word.substr(done));
}

}  // namespace

std::optional<Problem> check_command_word(std::string_view word) {
  std::size_t done = 0;
  while (const auto span = next_span(word, done)) {
    done = span->end;
    const bool alone = span->begin == 0 && span->end == word.size();
    if (is_one_of(argument_lists, span->name)) {
      if (alone) continue;
      return Problem{"", fmt::format("\"{}\" has ${{{}}} within a word", word, span->name),
                     "make it a word of its own"};
    }
    if (is_one_of(single_words, span->name) || (span->name.starts_with("envvar:") && span->name.size() > 7)) continue;
    return Problem{"", fmt::format("\"{}\" has ${{{}}}, which is not known", word, span->name),
                   "known: ${program}, ${env}, ${interpreter}, ${envvar:NAME}, ${args}, ${args_no_hyphens}, "
                   "${args_no_boolean_flags}, ${args_json}"};
  }
  return std::nullopt;
}

Result<std::vector<std::string>> expand_command(const std::vector<std::string>& words, const Settings& settings,
                                                const TrialCommand& surroundings) {
  std::vector<std::string> command;
  for (const std::string& word : words) {
    const auto span = next_span(word, 0);
    if (span && is_one_of(argument_lists, span->name)) {
      for (std::string& argument : arguments(span->name, settings)) command.push_back(std::move(argument));
      continue;
    }
    auto text = replaced(word, surroundings);
    if (!text) return text.error();
    command.push_back(std::move(*text));
  }
  return command;
}

}  // namespace muster::sweep
