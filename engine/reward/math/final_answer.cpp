#include "reward/math/final_answer.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "reward/math/clean_text.hpp"
#include "reward/math/form.hpp"
#include "reward/math/last_number.hpp"

namespace muster::reward::math {
namespace {

using Found = std::optional<std::string_view>;

// What stands in the braces that text begins with.
Found in_braces(std::string_view text) {
  constexpr std::size_t longest_box = 10'000;
  int depth = 0;
  for (std::size_t i = 0; i < std::min(text.size(), longest_box); ++i) {
    if (text[i] == '\\')
      ++i;  // \{ is no brace
    else if (text[i] == '{')
      ++depth;
    else if (text[i] == '}' && --depth == 0)
      return text.substr(1, i - 1);
  }
  return std::nullopt;
}

Found last_box(std::string_view text) {
  for (std::size_t end = std::string_view::npos;;) {
    const std::size_t boxed = text.rfind("\\boxed", end), framed = text.rfind("\\fbox", end);
    const bool box = boxed != std::string_view::npos && (framed == std::string_view::npos || boxed > framed);
    const std::size_t at = box ? boxed : framed;
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = trim(text.substr(at + (box ? 6 : 5)));
    if (rest.starts_with('{'))
      if (const Found inside = in_braces(rest)) return inside;
    if (at == 0) return std::nullopt;
    end = at - 1;
  }
}

std::string_view first_line(std::string_view text) {
  text = trim(text);
  return trim(text.substr(0, std::min(text.find('\n'), text.size())));
}

Found after_hashes(std::string_view text) {
  const std::size_t at = text.rfind("####");
  return at == std::string_view::npos ? Found() : Found(first_line(text.substr(at + 4)));
}

// The last $…$, \(…\) or \[…\].
Found last_formula(std::string_view text) {
  Found found;
  std::size_t found_end = 0;
  const auto look = [&](std::string_view open, std::string_view close, bool within_line) {
    for (std::size_t begin = text.find(open); begin != std::string_view::npos;) {
      const std::size_t inside = begin + open.size(), end = text.find(close, inside);
      if (end == std::string_view::npos) return;
      const std::string_view content = text.substr(inside, end - inside);
      if (within_line && content.find('\n') != std::string_view::npos) {
        begin = text.find(open, inside);
        continue;
      }
      if (!trim(content).empty() && end >= found_end) found = content, found_end = end;
      begin = text.find(open, end + close.size());
    }
  };
  look("$$", "$$", false);
  if (!found) look("$", "$", true);
  look("\\(", "\\)", true);
  look("\\[", "\\]", false);
  return found;
}

Found first_formula(std::string_view text) {
  for (const auto& [open, close] : {std::pair<std::string_view, std::string_view>{"$", "$"}, {"\\(", "\\)"}}) {
    const std::size_t begin = text.find(open), end = text.find(close, begin + open.size());
    if (begin != std::string_view::npos && end != std::string_view::npos)
      return text.substr(begin + open.size(), end - begin - open.size());
  }
  return std::nullopt;
}

// Up to the full stop that ends a sentence.
std::string_view sentence(std::string_view text) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i)
    if (text[i] == '.' && text[i + 1] == ' ') return text.substr(0, i);
  return text;
}

// What the last "answer is" or "answer:" of the text leads to.
Found after_answer_is(std::string_view text) {
  constexpr std::array<std::string_view, 4> links{" is ", " is:", " are ", ":"};
  constexpr std::size_t longest_link = 60;
  const std::string lower = to_lower(text);
  for (std::size_t at = lower.rfind("answer"); at != std::string::npos; at = at == 0 ? at - 1 : lower.rfind("answer", at - 1)) {
    const std::string line = std::string(first_line(std::string_view(lower).substr(at, longest_link))) + " ";
    std::size_t begin = std::string::npos;
    for (const std::string_view link : links)
      if (const std::size_t place = line.find(link); place < line.size()) begin = std::min(begin, place + link.size());
    if (begin == std::string::npos) continue;
    const std::size_t first = text.find_first_not_of(" *:\n\t", at + begin);
    if (first != std::string_view::npos) return first_line(text.substr(first));
  }
  return std::nullopt;
}

bool is_mathematics(std::string_view text) {
  const auto form = parse_form(clean(text));
  return std::holds_alternative<Form>(form) && std::get<Form>(form).kind != Form::Kind::words;
}

// The text itself, or the one number that can be told in it.
std::string readable(std::string_view text) {
  constexpr std::size_t longest_answer = 400;
  if (text.size() <= longest_answer && is_mathematics(text)) return std::string(text);
  return last_number(text).value_or(std::string(text));
}

// "5 of the 7 apples": as many words from the beginning as are mathematics, with a unit.
std::string of_sentence(std::string_view line) {
  constexpr int most_words = 40;
  line = sentence(line);
  while (line.ends_with('*')) line.remove_suffix(1);
  if (!is_mathematics(line))
    if (const Found formula = first_formula(line)) return std::string(*formula);
  std::size_t end = std::min<std::size_t>(line.size(), 400);
  for (int words = 0; words < most_words && end > 0 && end != std::string_view::npos; ++words) {
    if (is_mathematics(line.substr(0, end))) return std::string(line.substr(0, end));
    end = line.rfind(' ', end - 1);
  }
  return readable(line);
}

}  // namespace

std::string final_answer(std::string_view text) {
  if (const std::size_t thought = text.rfind("</think>"); thought != std::string_view::npos) text.remove_prefix(thought + 8);
  text = trim(text);
  if (const Found box = last_box(text)) return std::string(*box);
  if (const Found line = after_hashes(text)) return readable(*line);
  if (const Found phrase = after_answer_is(text)) return of_sentence(*phrase);
  if (const Found formula = last_formula(text)) return std::string(*formula);
  return readable(text);
}

}  // namespace muster::reward::math
