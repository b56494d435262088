#include "chat/code_points.hpp"

#include <algorithm>

namespace muster::chat {
namespace {

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::size_t announced_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xF0) return 4;
  if (lead >= 0xE0) return 3;
  return lead >= 0xC0 ? 2 : 1;
}

bool contains(std::string_view characters, std::string_view character) {
  return characters.find(character) != std::string_view::npos;
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = announced_length(lead);
  if (length == 1 || length > text.size()) return {lead, 1};
  char32_t value = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text[i])) return {lead, 1};
    value = (value << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  return {value, length};
}

CodePoint last_code_point(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && continues(text[begin])) --begin;
  const CodePoint found = first_code_point(text.substr(begin));
  if (begin + found.length == text.size()) return found;
  return {static_cast<unsigned char>(text.back()), 1};
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) { return !continues(byte); }));
}

std::size_t byte_of_code_point(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; at < text.size() && index > 0; --index) at += first_code_point(text.substr(at)).length;
  return std::min(at, text.size());
}

std::vector<std::string_view> code_points(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    found.push_back(text.substr(0, first_code_point(text).length));
    text.remove_prefix(found.back().size());
  }
  return found;
}

void append_code_point(std::string& text, char32_t value) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (value < 0x80) return put(value);
  if (value < 0x800) {
    put(0xC0 | (value >> 6));
  } else {
    if (value < 0x10000) {
      put(0xE0 | (value >> 12));
    } else {
      put(0xF0 | (value >> 18));
      put(0x80 | ((value >> 12) & 0x3F));
    }
    put(0x80 | ((value >> 6) & 0x3F));
  }
  put(0x80 | (value & 0x3F));
}

bool is_space(char32_t value) {
  if (value < 0x80) return value == ' ' || (value >= 0x09 && value <= 0x0D) || (value >= 0x1C && value <= 0x1F);
  return value == 0x85 || value == 0xA0 || value == 0x1680 || (value >= 0x2000 && value <= 0x200A) || value == 0x2028 ||
         value == 0x2029 || value == 0x202F || value == 0x205F || value == 0x3000;
}

std::string_view strip_left(std::string_view text) {
  while (!text.empty()) {
    const CodePoint first = first_code_point(text);
    if (!is_space(first.value)) break;
    text.remove_prefix(first.length);
  }
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    const CodePoint last = last_code_point(text);
    if (!is_space(last.value)) break;
    text.remove_suffix(last.length);
  }
  return text;
}

std::string_view strip_left(std::string_view text, std::string_view characters) {
  while (!text.empty()) {
    const std::size_t length = first_code_point(text).length;
    if (!contains(characters, text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  return text;
}

std::string_view strip_right(std::string_view text, std::string_view characters) {
  while (!text.empty()) {
    const std::size_t length = last_code_point(text).length;
    if (!contains(characters, text.substr(text.size() - length))) break;
    text.remove_suffix(length);
  }
  return text;
}

}  // namespace muster::chat
