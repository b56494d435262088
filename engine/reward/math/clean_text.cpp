#include "reward/math/clean_text.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "reward/math/character_class.hpp"

namespace muster::reward::math {
namespace {

using Spelling = std::pair<std::string_view, std::string_view>;

// In order: what is a piece of another comes later. A command ends where no letter follows.
constexpr std::array spellings{
    Spelling{"\\\\", "\\\\"},  // a new row
    Spelling{"−", "-"}, Spelling{"–", "-"}, Spelling{"×", "*"}, Spelling{"·", "*"}, Spelling{"⋅", "*"}, Spelling{"∙", "*"},
    Spelling{"÷", "/"}, Spelling{"π", "\\pi "}, Spelling{"√", "\\sqrt "}, Spelling{"∞", "\\infty "}, Spelling{"°", ""},
    Spelling{"≤", "\\le "}, Spelling{"≥", "\\ge "}, Spelling{"≠", "\\ne "}, Spelling{"≈", "="}, Spelling{"∪", "\\cup "},
    Spelling{"∈", "\\in "}, Spelling{"±", "\\pm "}, Spelling{"∅", "\\emptyset "}, Spelling{"²", "^2"}, Spelling{"³", "^3"},
    Spelling{"½", "\\frac{1}{2}"}, Spelling{"¼", "\\frac{1}{4}"}, Spelling{"¾", "\\frac{3}{4}"},
    Spelling{"€", ""}, Spelling{"£", ""}, Spelling{"\u00a0", " "}, Spelling{"\u202f", " "},
    Spelling{"**", "^"}, Spelling{"{,}", ","}, Spelling{",\\!", ","}, Spelling{"\\!", ""}, Spelling{"\\,", ""},
    Spelling{"\\;", " "}, Spelling{"\\:", " "}, Spelling{"\\ ", " "}, Spelling{"~", " "}, Spelling{"\\$", ""},
    Spelling{"$", ""}, Spelling{"\\%", "%"}, Spelling{"\\(", ""}, Spelling{"\\)", ""}, Spelling{"\\[", ""},
    Spelling{"\\]", ""}, Spelling{"\\lbrace", "\\{"}, Spelling{"\\rbrace", "\\}"}, Spelling{"\\lvert", "|"},
    Spelling{"\\rvert", "|"}, Spelling{"\\vert", "|"}, Spelling{"\\quad", " "}, Spelling{"\\qquad", " "},
    Spelling{"\\left", ""}, Spelling{"\\right", ""}, Spelling{"\\big", ""}, Spelling{"\\Big", ""}, Spelling{"\\bigl", ""},
    Spelling{"\\bigr", ""}, Spelling{"\\displaystyle", ""}, Spelling{"\\limits", ""}, Spelling{"\\dfrac", "\\frac"},
    Spelling{"\\tfrac", "\\frac"}, Spelling{"\\cfrac", "\\frac"}, Spelling{"\\cdot", "*"}, Spelling{"\\times", "*"},
    Spelling{"\\div", "/"}, Spelling{"\\leq", "\\le "}, Spelling{"\\geq", "\\ge "}, Spelling{"\\neq", "\\ne "},
    Spelling{"\\lt", "<"}, Spelling{"\\gt", ">"}, Spelling{"\\approx", "="}, Spelling{"\\varnothing", "\\emptyset "},
    Spelling{"^{\\circ}", ""}, Spelling{"^\\circ", ""}, Spelling{"\\circ", ""}, Spelling{"\\degree", ""},
    Spelling{"\\dots", ""},
};

const Spelling* spelling_at(std::string_view text) {
  for (const Spelling& spelling : spellings) {
    if (!text.starts_with(spelling.first)) continue;
    const bool command = spelling.first.size() > 2 && spelling.first.front() == '\\' && is_letter(spelling.first.back());
    if (command && text.size() > spelling.first.size() && is_letter(text[spelling.first.size()])) continue;
    return &spelling;
  }
  return nullptr;
}

}  // namespace

std::string clean(std::string_view text) {
  text = trim(text);
  while (text.starts_with("**") && text.ends_with("**") && text.size() > 4) text = text.substr(2, text.size() - 4);
  std::string cleaned;
  while (!text.empty()) {
    const Spelling* found = spelling_at(text);
    // \left. and \right. are invisible brackets.
    const bool invisible = found != nullptr && (found->first == "\\left" || found->first == "\\right") &&
                           text.substr(found->first.size()).starts_with('.');
    cleaned += found != nullptr ? found->second : text.substr(0, 1);
    text.remove_prefix(found != nullptr ? found->first.size() + (invisible ? 1 : 0) : 1);
  }
  std::string_view result = trim(cleaned);
  while (result.ends_with('.') || result.ends_with(';') || result.ends_with(',')) result = trim(result.substr(0, result.size() - 1));
  return std::string(result);
}

std::string folded(std::string_view text) {
  std::string kept;
  bool blank = false;
  for (const char c : text) {
    const bool is_blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!is_blank && blank && !kept.empty() && is_digit(kept.back()) && is_digit(c)) kept += ' ';  // 1 1/2 is not 11/2
    if (!is_blank) kept += c;
    blank = is_blank;
  }
  return kept.size() > 1 && std::ranges::all_of(kept, is_letter) ? to_lower(kept) : kept;
}

}  // namespace muster::reward::math
