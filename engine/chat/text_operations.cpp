#include "chat/text_operations.hpp"

#include <algorithm>

#include "chat/code_points.hpp"

namespace muster::chat {
namespace {

// Bytes of the line end at the beginning of text; 0 when there is none.
std::size_t line_end(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  const CodePoint point = first_code_point(text);
  const char32_t value = point.value;
  const bool ends = (value >= 0x0A && value <= 0x0D) || (value >= 0x1C && value <= 0x1E) || value == 0x85 ||
                    value == 0x2028 || value == 0x2029;
  return ends ? point.length : 0;
}

std::size_t word_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const CodePoint point = first_code_point(text.substr(length));
    if (is_space(point.value)) break;
    length += point.length;
  }
  return length;
}

std::size_t last_word_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const CodePoint point = last_code_point(text.substr(0, text.size() - length));
    if (is_space(point.value)) break;
    length += point.length;
  }
  return length;
}

}  // namespace

std::vector<std::string> split_at_space(std::string_view text, std::size_t most, bool from_right) {
  std::vector<std::string> parts;
  text = from_right ? strip_right(text) : strip_left(text);
  while (!text.empty()) {
    if (parts.size() == most) {
      parts.emplace_back(text);
      break;
    }
    const std::size_t length = from_right ? last_word_length(text) : word_length(text);
    parts.emplace_back(from_right ? text.substr(text.size() - length) : text.substr(0, length));
    text = from_right ? strip_right(text.substr(0, text.size() - length)) : strip_left(text.substr(length));
  }
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string> split_at(std::string_view text, std::string_view separator, std::size_t most,
                                  bool from_right) {
  std::vector<std::string> parts;
  while (parts.size() < most) {
    const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    parts.emplace_back(from_right ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + separator.size());
  }
  parts.emplace_back(text);
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = line_end(text.substr(at));
    if (end == 0) {
      at += first_code_point(text.substr(at)).length;
      continue;
    }
    lines.emplace_back(text.substr(begin, at - begin + (keep_ends ? end : 0)));
    at += end;
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::size_t most) {
  std::string out;
  if (from.empty()) {  // between all characters, and at both ends
    for (const std::string_view character : code_points(text)) {
      if (most > 0) out += to;
      most -= most > 0 ? 1 : 0;
      out += character;
    }
    return most > 0 ? out + std::string(to) : out;
  }
  for (; most > 0; --most) {
    const std::size_t at = text.find(from);
    if (at == std::string_view::npos) break;
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

std::size_t occurrences(std::string_view text, std::string_view part) {
  if (part.empty()) return count_code_points(text) + 1;
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace muster::chat
