#include "tokenizer/normalizer.hpp"

#include <fmt/format.h>

#include "tokenizer/letter_case.hpp"
#include "tokenizer/limits.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

constexpr int deepest_normalizer = 8;

bool is_strippable(char32_t point) { return holds(tables::strippable, point); }

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text)
    if (!is_continuation(byte)) ++count;
  return count;
}

std::size_t length_of_characters(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  for (; count > 0 && at < text.size(); --count) at += character_length(text[at]);
  return at;
}

}  // namespace

Pattern read_pattern(PartReader reader) {
  if (reader.has("String")) {
    auto pattern = Pattern::text(reader.text("String"));
    reader.finish();
    return pattern;
  }
  const std::string expression = reader.text("Regex");
  reader.finish();
  auto pattern = Pattern::expression(expression);
  if (pattern) return *std::move(pattern);
  reader.complain(pattern.error());
  return Pattern::text(" ");
}

Normalizer Normalizer::read(PartReader reader) {
  Normalizer normalizer;
  normalizer.add(std::move(reader), 0);
  return normalizer;
}

void Normalizer::add(PartReader reader, int depth) {
  const std::string type = reader.type();
  if (steps_.size() == most_steps) return reader.complain(fmt::format("more than {} steps", most_steps), "use fewer");
  if (type == "Sequence" && depth < deepest_normalizer) {
    for (PartReader& part : reader.list("normalizers")) add(std::move(part), depth + 1);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    steps_.emplace_back(NormalForm{.compatible = type.size() == 4, .composed = type.back() == 'C'});
  } else if (type == "Replace") {
    Pattern pattern = read_pattern(reader.part("pattern"));
    steps_.emplace_back(Replace{std::move(pattern), reader.text("content")});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{reader.text("prepend")});
  } else if (type == "Lowercase") {
    steps_.emplace_back(Lowercase{});
  } else if (type == "Strip") {
    const bool left = reader.boolean("strip_left");
    steps_.emplace_back(Strip{left, reader.boolean("strip_right")});
  } else {
    return reader.refuse_type(type, "NFC, NFD, NFKC, NFKD, Replace, Prepend, Lowercase, Strip, Sequence");
  }
  reader.finish();
}

OwnedSection Normalizer::apply(Section section) const {
  OwnedSection result{std::string(section.text), section.head};
  for (const Step& step : steps_) {
    result = std::visit([&](const auto& one) { return applied(one, result.view()); }, step);
    check_growth(result.text.size(), section.text.size());
  }
  return result;
}

OwnedSection Normalizer::applied(const NormalForm& form, Section section) {
  OwnedSection result{normal_form(section.text, form)};
  // What the first character became: as many characters as it becomes alone.
  const std::string head = normal_form(section.text.substr(0, section.head), form);
  result.head = length_of_characters(result.text, count_characters(head));
  return result;
}

OwnedSection Normalizer::applied(const Replace& replace, Section section) {
  OwnedSection result;
  bool within_head = section.head > 0;
  for (const Stretch& stretch : replace.pattern.find_all(section.text)) {
    const std::string_view written = stretch.matches ? std::string_view(replace.content)
                                                     : section.text.substr(stretch.begin, stretch.end - stretch.begin);
    result.text += written;
    check_growth(result.text.size(), section.text.size());
    if (!within_head) continue;
    // What replaces a match takes the place of its last character.
    const bool whole = stretch.matches ? stretch.end <= section.head : stretch.end < section.head;
    if (whole)
      result.head += written.size();
    else if (!stretch.matches)
      result.head += std::min(stretch.end, section.head) - stretch.begin;
    within_head = whole;
  }
  return result;
}

OwnedSection Normalizer::applied(const Prepend& prepend, Section section) {
  if (section.text.empty()) return {};
  return {prepend.text + std::string(section.text), section.head == 0 ? 0 : section.head + prepend.text.size()};
}

OwnedSection Normalizer::applied(const Lowercase&, Section section) {
  return {lower_cased(section.text), lower_cased(section.text.substr(0, section.head)).size()};
}

OwnedSection Normalizer::applied(const Strip& strip, Section section) {
  std::size_t begin = 0, end = section.text.size();
  while (strip.left && begin < end) {
    std::size_t next = begin;
    if (!is_strippable(next_code_point(section.text, next))) break;
    begin = next;
  }
  while (strip.right && end > begin) {
    const std::size_t last = previous_character(section.text, end);
    std::size_t at = last;
    if (!is_strippable(next_code_point(section.text, at))) break;
    end = last;
  }
  const Section rest = section.part(begin, end);
  return {std::string(rest.text), rest.head};
}

}  // namespace muster::tokenizer
