#include "monitor/key.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.hpp"

namespace muster::monitor {
namespace {

struct Sequence {
  std::string_view bytes;
  KeyKind kind;
};
constexpr std::array sequences{
    Sequence{"\x1b[A", KeyKind::up},    Sequence{"\x1b[B", KeyKind::down},     Sequence{"\x1bOA", KeyKind::up},
    Sequence{"\x1bOB", KeyKind::down},  Sequence{"\x1b[5~", KeyKind::page_up}, Sequence{"\x1b[6~", KeyKind::page_down},
    Sequence{"\x1b[H", KeyKind::home},  Sequence{"\x1b[F", KeyKind::end},      Sequence{"\x1bOH", KeyKind::home},
    Sequence{"\x1bOF", KeyKind::end},   Sequence{"\x1b[1~", KeyKind::home},    Sequence{"\x1b[4~", KeyKind::end},
    Sequence{"\r", KeyKind::enter},     Sequence{"\n", KeyKind::enter},        Sequence{"\x7f", KeyKind::backspace},
    Sequence{"\b", KeyKind::backspace}, Sequence{"\x03", KeyKind::interrupt},  Sequence{"\x1a", KeyKind::suspend},
};

// How many bytes a sequence of the form "escape [ … letter" takes that is not one of our keys; 0 if it is not
// complete.
std::size_t unknown_order(std::string_view text) {
  std::size_t end = 2;
  while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x40) ++end;
  return end < text.size() ? end + 1 : 0;
}

std::size_t character_length(unsigned char first) { return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4; }

struct Taken {
  std::size_t length = 0;  // 0: more bytes are needed
  std::optional<Key> key;
};

Taken take_first(std::string_view text) {
  for (const Sequence& sequence : sequences) {
    if (text.starts_with(sequence.bytes)) return {sequence.bytes.size(), Key{sequence.kind, ""}};
    if (sequence.bytes.starts_with(text)) return {};
  }
  const auto first = static_cast<unsigned char>(text.front());
  if (first == 0x1B) {
    if (text[1] == '[' || text[1] == 'O') return {unknown_order(text), std::nullopt};
    return {1, Key{KeyKind::escape, ""}};
  }
  if (first < 0x20) return {1, std::nullopt};
  if ((first >= 0x80 && first < 0xC2) || first >= 0xF5) return {1, std::nullopt};  // begins no character
  const std::size_t length = character_length(first);
  if (text.size() < length) return {};
  std::string character(text.substr(0, length));
  if (!is_utf8(character)) return {1, std::nullopt};
  return {length, Key{KeyKind::text, std::move(character)}};
}

}  // namespace

std::vector<Key> KeyReader::feed(std::string_view bytes) {
  pending_ += bytes;
  std::vector<Key> keys;
  std::size_t position = 0;
  while (position < pending_.size()) {
    Taken taken = take_first(std::string_view(pending_).substr(position));
    if (taken.length == 0) break;
    if (taken.key) keys.push_back(std::move(*taken.key));
    position += taken.length;
  }
  pending_.erase(0, position);
  return keys;
}

std::vector<Key> KeyReader::rest() {
  const bool is_escape = pending_ == "\x1b";
  pending_.clear();
  if (is_escape) return {Key{KeyKind::escape, ""}};
  return {};
}

}  // namespace muster::monitor
