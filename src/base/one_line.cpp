#include "base/one_line.hpp"

namespace muster {

std::string on_one_line(std::string_view text, std::size_t most) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string line;
  std::size_t shown = 0;
  const auto is_inner = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (!is_inner(text[i]) && shown++ == most) return line + "…";
    // U+0080 to U+009F are control characters too.
    const bool is_late = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    const auto code = is_late ? static_cast<unsigned char>(text[++i]) : byte;
    if (byte == '\n')
      line += "\\n";
    else if (byte == '\t')
      line += "\\t";
    else if (byte < 0x20 || byte == 0x7f || is_late)
      line.append("\\x").append({digits[code >> 4], digits[code & 0xf]});
    else
      line += text[i];
  }
  return line;
}

}  // namespace muster
