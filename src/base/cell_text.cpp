#include "base/cell_text.hpp"

#include <locale.h>
#include <clocale>
#include <cstdint>
#include <cwchar>

#include <algorithm>

#include "base/text.hpp"

namespace muster {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

// The bytes of the character that begins text; one if it is not UTF-8.
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t wanted = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 1;
  return wanted <= text.size() && is_utf8(text.substr(0, wanted)) ? wanted : 1;
}

char32_t code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first;
  char32_t point = first & (0x7FU >> character.size());
  for (const char byte : character.substr(1)) point = point << 6U | (static_cast<unsigned char>(byte) & 0x3FU);
  return point;
}

// The C library's own table, of a locale that every system has: the one that terminals use, too.
std::size_t width_of(char32_t point) {
  if (point < 0x300) return 1;
  static const locale_t unicode = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (unicode == nullptr) return 1;
  const locale_t before = ::uselocale(unicode);
  const int width = ::wcwidth(static_cast<wchar_t>(point));
  ::uselocale(before);
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

std::size_t width_of(std::string_view character) { return character.size() == 1 ? 1 : width_of(code_point(character)); }

// Where the escape sequence that begins at text[0] ends.
std::size_t escape_length(std::string_view text) {
  if (text.size() < 2) return text.size();
  if (text[1] == '[') {  // up to a letter or the like
    std::size_t end = 2;
    while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x40) ++end;
    return std::min(end + 1, text.size());
  }
  if (text[1] == ']') {  // up to a bell, or an escape with a backslash
    const std::size_t end = text.find_first_of("\a\x1b", 2);
    if (end == std::string_view::npos) return text.size();
    return text[end] == '\a' ? end + 1 : std::min(end + 2, text.size());
  }
  return 2;
}

}  // namespace

std::size_t cell_width(std::string_view line) {
  std::size_t width = 0;
  while (!line.empty()) {
    const std::size_t length = character_length(line);
    width += width_of(line.substr(0, length));
    line.remove_prefix(length);
  }
  return width;
}

std::string cut_to_cells(std::string_view line, std::size_t cells, std::string_view mark) {
  std::size_t width = 0, position = 0, before_mark = 0;
  while (position < line.size()) {
    const std::size_t length = character_length(line.substr(position));
    const std::size_t next = width + width_of(line.substr(position, length));
    if (next > cells) return cells == 0 ? "" : std::string(line.substr(0, before_mark)) + std::string(mark);
    position += length;
    width = next;
    if (width < cells) before_mark = position;
  }
  return std::string(line);
}

std::string fit_to_cells(std::string_view line, std::size_t cells, Align align, std::string_view mark) {
  std::string text = cut_to_cells(line, cells, mark);
  const std::string padding(cells - std::min(cells, cell_width(text)), ' ');
  return align == Align::left ? text + padding : padding + text;
}

std::string visible_line(std::string_view line, bool ascii_only) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (const auto restart = line.rfind('\r'); restart != std::string_view::npos) line.remove_prefix(restart + 1);
  std::string text;
  while (!line.empty()) {
    const auto first = static_cast<unsigned char>(line.front());
    const std::size_t length = first == 0x1B ? escape_length(line) : character_length(line);
    const std::string_view character = line.substr(0, length);
    line.remove_prefix(length);
    if (first == 0x1B || first == 0x7F || (first < 0x20 && first != '\t')) continue;
    if (first == '\t')
      text += "  ";
    else if (length == 1)
      text += first < 0x80 ? character : ascii_only ? "?" : replacement;
    else if (const char32_t point = code_point(character); point >= 0xA0)  // those below are further controls
      text += ascii_only ? "?" : character;
  }
  return text;
}

}  // namespace muster
