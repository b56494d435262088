#include <fmt/format.h>

#include <algorithm>

#include "chat/arguments.hpp"
#include "chat/attributes.hpp"
#include "chat/code_points.hpp"
#include "chat/letters.hpp"
#include "chat/text_format.hpp"
#include "chat/text_operations.hpp"

namespace muster::chat {
namespace {

const std::string& own(const Value& subject) { return *subject.text(); }

Value with_mark(Evaluation& evaluation, const Value& subject, std::string text) {
  return evaluation.text(std::move(text), subject.is_markup());
}

Value texts(Evaluation& evaluation, const Value& subject, std::vector<std::string> parts,
            Sequence::Kind kind = Sequence::Kind::list) {
  std::vector<Value> values;
  for (std::string& part : parts) values.emplace_back(std::move(part), subject.is_markup());
  evaluation.charge_bytes(own(subject).size());
  return evaluation.list(std::move(values), kind);
}

template <std::string (*convert)(std::string_view)>
Value converted_method(Evaluation& evaluation, const Value& subject, const Given&) {
  return with_mark(evaluation, subject, convert(own(subject)));
}

template <bool left, bool right>
Value strip(Evaluation& evaluation, const Value& subject, const Given& given) {
  std::string_view text = own(subject);
  if (is_given(given, 0)) {
    const std::string characters = text_at(evaluation, given, 0, "");
    if (left) text = strip_left(text, characters);
    if (right) text = strip_right(text, characters);
  } else {
    if (left) text = strip_left(text);
    if (right) text = strip_right(text);
  }
  return with_mark(evaluation, subject, std::string(text));
}

template <bool from_right>
Value split(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Integer times = integer_at(evaluation, given, 1, -1);
  const std::size_t most = times < 0 ? without_limit : static_cast<std::size_t>(times);
  if (!is_given(given, 0)) return texts(evaluation, subject, split_at_space(own(subject), most, from_right));
  const std::string separator = text_at(evaluation, given, 0, "");
  if (separator.empty()) return evaluation.fail("'split' at an empty separator");
  return texts(evaluation, subject, split_at(own(subject), separator, most, from_right));
}

Value lines(Evaluation& evaluation, const Value& subject, const Given& given) {
  return texts(evaluation, subject, split_lines(own(subject), truth_at(given, 0, false)));
}

template <bool from_right>
Value partition(Evaluation& evaluation, const Value& subject, const Given& given) {
  const std::string separator = text_at(evaluation, given, 0, "");
  if (separator.empty()) return evaluation.fail("'partition' at an empty separator");
  const std::string& text = own(subject);
  const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
  std::vector<std::string> parts{text, "", ""};
  if (from_right) parts = {"", "", text};
  if (at != std::string::npos) parts = {text.substr(0, at), separator, text.substr(at + separator.size())};
  return texts(evaluation, subject, std::move(parts), Sequence::Kind::tuple);
}

// The part of a text from one code point to another, as start and end arguments name it.
std::string_view window(Evaluation& evaluation, const Value& subject, const Given& given, std::size_t& offset) {
  const std::string_view text = own(subject);
  offset = 0;
  if (!is_given(given, 1) && !is_given(given, 2)) return text;
  const auto count = static_cast<Integer>(count_code_points(text));
  const auto place = [&](std::size_t parameter, Integer otherwise) {
    Integer index = is_given(given, parameter) ? integer_at(evaluation, given, parameter, 0) : otherwise;
    if (index < 0) index += count;
    return std::clamp<Integer>(index, 0, count);
  };
  const Integer begin = place(1, 0), end = std::max(begin, place(2, count));
  offset = static_cast<std::size_t>(begin);
  const std::size_t first = byte_of_code_point(text, offset);
  return text.substr(first, byte_of_code_point(text, static_cast<std::size_t>(end)) - first);
}

template <bool at_end>
Value affix(Evaluation& evaluation, const Value& subject, const Given& given) {
  std::size_t offset = 0;
  const std::string_view text = window(evaluation, subject, given, offset);
  const auto matches = [&](const Value& wanted) {
    if (!wanted.text())
      evaluation.fail(wanted.undefined() ? reason_of(wanted)
                                         : "'startswith' and 'endswith' need text or a tuple of it");
    else if (at_end ? text.ends_with(*wanted.text()) : text.starts_with(*wanted.text()))
      return true;
    return false;
  };
  const Sequence* several = given.at(0)->sequence();
  if (several && several->kind == Sequence::Kind::tuple) return std::ranges::any_of(several->elements, matches);
  return matches(*given.at(0));
}

template <bool from_right, bool must>
Value find(Evaluation& evaluation, const Value& subject, const Given& given) {
  std::size_t offset = 0;
  const std::string_view text = window(evaluation, subject, given, offset);
  const std::string part = text_at(evaluation, given, 0, "");
  const std::size_t at = from_right ? text.rfind(part) : text.find(part);
  if (at != std::string_view::npos) return static_cast<Integer>(offset + count_code_points(text.substr(0, at)));
  return must ? evaluation.fail("'index' of a text that is not there") : Value(Integer{-1});
}

Value count(Evaluation& evaluation, const Value& subject, const Given& given) {
  std::size_t offset = 0;
  const std::string_view text = window(evaluation, subject, given, offset);
  return static_cast<Integer>(occurrences(text, text_at(evaluation, given, 0, "")));
}

Value replace_method(Evaluation& evaluation, const Value& subject, const Given& given) {
  const std::string from = text_at(evaluation, given, 0, "");
  std::string to = text_at(evaluation, given, 1, "");
  if (subject.is_markup() && !given.at(1)->is_markup()) to = escape_html(to);
  const Integer most = integer_at(evaluation, given, 2, -1);
  const std::size_t times = most < 0 ? without_limit : static_cast<std::size_t>(most);
  if (!evaluation.charge_bytes(std::min(occurrences(own(subject), from), times) * to.size())) return {};
  return with_mark(evaluation, subject, replaced(own(subject), from, to, times));
}

Value join_method(Evaluation& evaluation, const Value& subject, const Given& given) {
  std::string joined;
  bool first = true;
  for (const Value& element : evaluation.iterate(*given.at(0))) {
    if (!element.text())
      return evaluation.fail(element.undefined() ? reason_of(element)
                                                 : fmt::format("'join' of {}, which is not text", type_name(element)));
    if (!evaluation.charge_bytes(element.text()->size() + own(subject).size())) return {};
    if (!first) joined += own(subject);
    first = false;
    joined += subject.is_markup() && !element.is_markup() ? escape_html(*element.text()) : *element.text();
  }
  return with_mark(evaluation, subject, std::move(joined));
}

Value without_prefix(Evaluation& evaluation, const Value& subject, const Given& given) {
  const std::string prefix = text_at(evaluation, given, 0, "");
  const bool there = own(subject).starts_with(prefix);
  return with_mark(evaluation, subject, own(subject).substr(there ? prefix.size() : 0));
}

Value without_suffix(Evaluation& evaluation, const Value& subject, const Given& given) {
  const std::string suffix = text_at(evaluation, given, 0, "");
  const bool there = own(subject).ends_with(suffix);
  return with_mark(evaluation, subject, own(subject).substr(0, own(subject).size() - (there ? suffix.size() : 0)));
}

enum class Side { left, right, both };
template <Side side>
Value justify(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Integer width = integer_at(evaluation, given, 0, 0);
  const std::string fill = text_at(evaluation, given, 1, " ");
  const auto length = static_cast<Integer>(count_code_points(own(subject)));
  if (count_code_points(fill) != 1) return evaluation.fail("text is filled up with one character");
  if (width > 10'000'000) return evaluation.fail("text of more than ten million characters");
  if (evaluation.failed() || width <= length) return subject;
  const Integer missing = width - length;
  // Python's centre: the odd one goes to the left where both the gap and the width are odd.
  Integer left = side == Side::left ? 0 : side == Side::right ? missing : missing / 2 + (missing & width & 1);
  std::string out;
  for (Integer i = 0; i < left; ++i) out += fill;
  out += own(subject);
  for (Integer i = left; i < missing; ++i) out += fill;
  return with_mark(evaluation, subject, std::move(out));
}

Value zero_fill(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Integer width = integer_at(evaluation, given, 0, 0);
  const auto length = static_cast<Integer>(count_code_points(own(subject)));
  if (width > 10'000'000) return evaluation.fail("text of more than ten million characters");
  if (width <= length) return subject;
  const bool is_signed = own(subject).starts_with('-') || own(subject).starts_with('+');
  std::string out = own(subject);
  out.insert(is_signed ? 1 : 0, static_cast<std::size_t>(width - length), '0');
  return with_mark(evaluation, subject, std::move(out));
}

bool is_space_character(char32_t value) { return is_space(value); }
bool is_letter_or_number(char32_t value) { return is_alphabetic(value) || is_numeric(value); }
bool is_ascii(char32_t value) { return value < 0x80; }

// Whether all characters are of a kind.
template <bool (*kind)(char32_t), bool of_nothing>
Value all(Evaluation& evaluation, const Value& subject, const Given&) {
  if (!evaluation.charge(own(subject).size() / 16)) return {};
  const auto characters = code_points(own(subject));
  if (characters.empty()) return of_nothing;
  return std::ranges::all_of(characters, [](auto character) { return kind(first_code_point(character).value); });
}

template <bool upper_case>
Value all_case(Evaluation& evaluation, const Value& subject, const Given&) {
  return invoke(evaluation, *find_test(upper_case ? "upper" : "lower"), subject, {});
}

Value format_method(Evaluation& evaluation, const Value& subject, const Given& given) {
  return format_braces(evaluation, subject, given.all());
}

constexpr NativeFunction text_method_table[] = {
    {"strip", strip<true, true>, {"chars"}},
    {"lstrip", strip<true, false>, {"chars"}},
    {"rstrip", strip<false, true>, {"chars"}},
    {"split", split<false>, {"sep", "maxsplit"}},
    {"rsplit", split<true>, {"sep", "maxsplit"}},
    {"splitlines", lines, {"keepends"}},
    {"partition", partition<false>, {"sep"}, 1},
    {"rpartition", partition<true>, {"sep"}, 1},
    {"startswith", affix<false>, {"prefix", "start", "end"}, 1},
    {"endswith", affix<true>, {"suffix", "start", "end"}, 1},
    {"removeprefix", without_prefix, {"prefix"}, 1},
    {"removesuffix", without_suffix, {"suffix"}, 1},
    {"find", find<false, false>, {"sub", "start", "end"}, 1},
    {"rfind", find<true, false>, {"sub", "start", "end"}, 1},
    {"index", find<false, true>, {"sub", "start", "end"}, 1},
    {"rindex", find<true, true>, {"sub", "start", "end"}, 1},
    {"count", count, {"sub", "start", "end"}, 1},
    {"replace", replace_method, {"old", "new", "count"}, 2},
    {"join", join_method, {"iterable"}, 1},
    {"upper", converted_method<upper>},
    {"lower", converted_method<lower>},
    {"title", converted_method<title>},
    {"capitalize", converted_method<capitalize>},
    {"ljust", justify<Side::left>, {"width", "fillchar"}, 1},
    {"rjust", justify<Side::right>, {"width", "fillchar"}, 1},
    {"center", justify<Side::both>, {"width", "fillchar"}, 1},
    {"zfill", zero_fill, {"width"}, 1},
    {"isspace", all<is_space_character, false>},
    {"isalpha", all<is_alphabetic, false>},
    {"isdigit", all<is_digit, false>},
    {"isnumeric", all<is_numeric, false>},
    {"isalnum", all<is_letter_or_number, false>},
    {"isascii", all<is_ascii, true>},
    {"isprintable", all<is_printable, true>},
    {"isupper", all_case<true>},
    {"islower", all_case<false>},
    {"format", format_method, {}, 0, true},
};

}  // namespace

NativeTable text_methods() { return text_method_table; }

}  // namespace muster::chat
