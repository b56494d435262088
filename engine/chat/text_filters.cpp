#include <fmt/format.h>

#include <algorithm>

#include "chat/arguments.hpp"
#include "chat/attributes.hpp"
#include "chat/code_points.hpp"
#include "chat/json_value.hpp"
#include "chat/letters.hpp"
#include "chat/text_format.hpp"
#include "chat/text_operations.hpp"

namespace muster::chat {
namespace {

// A filter that turns text into text.
template <std::string (*convert)(std::string_view)>
Value converted_filter(Evaluation& evaluation, const Value& subject, const Given&) {
  const Value text = soft_text(evaluation, subject);
  return evaluation.text(convert(*text.text()), text.is_markup());
}

Value trim(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Value text = soft_text(evaluation, subject);
  if (!is_given(given, 0)) return evaluation.text(std::string(strip_left(strip_right(*text.text()))), text.is_markup());
  const std::string characters = text_at(evaluation, given, 0, "");
  return evaluation.text(std::string(strip_left(strip_right(*text.text(), characters), characters)), text.is_markup());
}

// Capitals after white space and opening brackets, as the filter has it; the method "title" goes by letters.
std::string title_words(std::string_view text) {
  std::string out;
  std::string word;
  const auto flush = [&] {
    if (word.empty()) return;
    const std::size_t first = first_code_point(word).length;
    out += upper(std::string_view(word).substr(0, first)) + lower(std::string_view(word).substr(first));
    word.clear();
  };
  bool between = false;
  for (const std::string_view character : code_points(text)) {
    const bool breaks = std::string_view("-({[<").find(character) != std::string_view::npos ||
                        is_space(first_code_point(character).value);
    if (breaks != between) flush();
    between = breaks;
    word += character;
  }
  flush();
  return out;
}

Value replace_filter(Evaluation& evaluation, const Value& subject, const Given& given) {
  const std::string text = evaluation.to_text(subject), from = evaluation.to_text(*given.at(0)),
                    to = evaluation.to_text(*given.at(1));
  const Integer most = is_given(given, 2) ? integer_at(evaluation, given, 2, -1) : -1;
  const std::size_t times = most < 0 ? without_limit : static_cast<std::size_t>(most);
  if (!evaluation.charge_bytes(std::min(occurrences(text, from), times) * to.size())) return {};
  return evaluation.text(replaced(text, from, to, times));
}

Value to_text(Evaluation& evaluation, const Value& subject, const Given&) { return soft_text(evaluation, subject); }

Value safe(Evaluation& evaluation, const Value& subject, const Given&) {
  return evaluation.text(evaluation.to_text(subject), true);
}

Value escape(Evaluation& evaluation, const Value& subject, const Given&) {
  if (subject.is_markup()) return subject;
  return evaluation.text(escape_html(evaluation.to_text(subject)), true);
}

Value force_escape(Evaluation& evaluation, const Value& subject, const Given&) {
  return evaluation.text(escape_html(evaluation.to_text(subject)), true);
}

std::string indented(const std::vector<std::string>& lines, const std::string& indention, bool blank) {
  std::string out = lines.empty() ? "" : lines.front();
  for (std::size_t i = 1; i < lines.size(); ++i) out += "\n" + (blank || !lines[i].empty() ? indention : "") + lines[i];
  return out;
}

Value indent(Evaluation& evaluation, const Value& subject, const Given& given) {
  if (subject.text() == nullptr)
    return evaluation.fail(subject.undefined() ? reason_of(subject) : "'indent' is for text");
  const bool text_width = given.has(0) && given.at(0)->text();
  const Integer width = text_width ? 0 : integer_at(evaluation, given, 0, 4);
  if (width > 10'000) return evaluation.fail("'indent' by more than 10000");
  const std::string indention =
      text_width ? *given.at(0)->text() : std::string(static_cast<std::size_t>(std::max<Integer>(width, 0)), ' ');
  const bool first = truth_at(given, 1, false), blank = truth_at(given, 2, false);
  const auto lines = split_lines(*subject.text() + "\n", false);
  if (!evaluation.charge_bytes(lines.size() * indention.size())) return {};
  return evaluation.text((first ? indention : "") + indented(lines, indention, blank), subject.is_markup());
}

Value center(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Value text = soft_text(evaluation, subject);
  const Arguments width{{given.has(0) ? *given.at(0) : Value(Integer{80})}, {}};
  return invoke(evaluation, *find(text_methods(), "center"), text, width);
}

Value truncate(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Integer length = integer_at(evaluation, given, 0, 255);
  const std::string end = text_at(evaluation, given, 2, "...");
  const Integer leeway = is_given(given, 3) ? integer_at(evaluation, given, 3, 5) : 5;
  const auto end_length = static_cast<Integer>(count_code_points(end));
  if (length < end_length || leeway < 0) return evaluation.fail("'truncate' to less than what it puts at the end");
  const auto count = evaluation.length(subject);
  if (count && static_cast<Integer>(*count) <= length + leeway) return subject;
  if (subject.text() == nullptr) return evaluation.fail("'truncate' is for text");
  const std::string& text = *subject.text();
  std::string kept = text.substr(0, byte_of_code_point(text, static_cast<std::size_t>(length - end_length)));
  if (!truth_at(given, 1, false)) kept = split_at(kept, " ", 1, true).front();
  return evaluation.text(kept + end);
}

Value word_count(Evaluation& evaluation, const Value& subject, const Given&) {
  const std::string text = evaluation.to_text(subject);
  Integer count = 0;
  bool inside = false;
  for (const std::string_view character : code_points(text)) {
    const char32_t value = first_code_point(character).value;
    const bool word = value == '_' || is_alphabetic(value) || is_numeric(value);
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return count;
}

Value format_filter(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Arguments& arguments = given.all();
  if (!arguments.positional.empty() && !arguments.named.empty())
    return evaluation.fail("'format' takes arguments with or without names, not both");
  const Value text = soft_text(evaluation, subject);
  if (arguments.named.empty())
    return format_percent(evaluation, text, evaluation.list(arguments.positional, Sequence::Kind::tuple));
  Dictionary named;
  for (const auto& [name, value] : arguments.named) named.assign(Value(name), value);
  return format_percent(evaluation, text, evaluation.dictionary(std::move(named)));
}

// The separators that a template gives as a tuple of two texts.
bool read_separators(const Value& given, JsonStyle& style) {
  const Sequence* pair = given.sequence();
  if (!pair || pair->elements.size() != 2 || !pair->elements[0].text() || !pair->elements[1].text()) return false;
  style.item_separator = *pair->elements[0].text();
  style.key_separator = *pair->elements[1].text();
  return true;
}

Value tojson(Evaluation& evaluation, const Value& subject, const Given& given) {
  JsonStyle style;
  style.ascii_only = truth_at(given, 0, false);
  if (is_given(given, 1)) {
    const Value& indent = *given.at(1);
    const Integer width = indent.text() ? 0 : integer_at(evaluation, given, 1, 0);
    if (width > 1000) return evaluation.fail("'tojson' with an indent of more than 1000");
    style.indent =
        indent.text() ? *indent.text() : std::string(static_cast<std::size_t>(std::max<Integer>(width, 0)), ' ');
    style.item_separator = ",";
  }
  if (is_given(given, 2) && !read_separators(*given.at(2), style))
    return evaluation.fail("the separators of 'tojson' are two texts");
  style.sort_keys = truth_at(given, 3, false);
  std::string what;
  auto text = to_json(subject, style, evaluation.options().most_bytes, what);
  if (!text) return evaluation.fail("tojson: " + (subject.undefined() ? reason_of(subject) : what));
  return evaluation.text(std::move(*text));
}

constexpr NativeFunction text_filter_table[] = {
    {"trim", trim, {"chars"}},
    {"upper", converted_filter<upper>},
    {"lower", converted_filter<lower>},
    {"capitalize", converted_filter<capitalize>},
    {"title", converted_filter<title_words>},
    {"replace", replace_filter, {"old", "new", "count"}, 2},
    {"string", to_text},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"forceescape", force_escape},
    {"indent", indent, {"width", "first", "blank"}},
    {"center", center, {"width"}},
    {"truncate", truncate, {"length", "killwords", "end", "leeway"}},
    {"wordcount", word_count},
    {"format", format_filter, {}, 0, true},
    {"tojson", tojson, {"ensure_ascii", "indent", "separators", "sort_keys"}},
};

}  // namespace

NativeTable text_filters() { return text_filter_table; }

}  // namespace muster::chat
