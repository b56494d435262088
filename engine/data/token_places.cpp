#include "data/token_places.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/text.hpp"
#include "tokenizer/byte_alphabet.hpp"

namespace muster::data {
namespace {

constexpr std::size_t widest_change = 64;  // bytes of either side that have no counterpart
constexpr std::size_t sure_agreement = 6;  // bytes that must be equal before both sides count as agreeing again
constexpr std::string_view space_mark = "▁";

bool has_byte_alphabet(const tokenizer::Tokenizer& tokenizer) {
  const auto space = tokenizer.find("Ġ");
  return space && tokenizer.decode(std::array{*space}, false) == " ";
}

std::optional<char> byte_token(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  int byte = 0;
  const auto [end, failure] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  if (failure != std::errc{} || end != piece.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

std::string with_spaces(std::string_view piece) {
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    if (piece.substr(at).starts_with(space_mark)) {
      text += ' ';
      at += space_mark.size();
    } else {
      text += piece[at++];
    }
  }
  return text;
}

// What a token stands for in the text, as far as its piece shows.
std::string written(const tokenizer::Tokenizer& tokenizer, tokenizer::TokenId token, bool byte_alphabet) {
  const std::string_view piece = tokenizer.piece(token);
  if (tokenizer.is_special(token)) return std::string(piece);
  if (byte_alphabet) return tokenizer::bytes_of(piece).value_or(std::string(piece));
  if (const auto byte = byte_token(piece)) return std::string(1, *byte);
  return with_spaces(piece);
}

// Whether both continue alike here, as far as can be seen.
bool agree(std::string_view one, std::string_view other) {
  const std::size_t length = std::min({one.size(), other.size(), sure_agreement});
  if (length < sure_agreement && one.size() != other.size()) return false;
  return one.substr(0, length) == other.substr(0, length);
}

// How much of either side has no counterpart before both agree again: as little as possible.
struct Gap {
  std::size_t written = 0;
  std::size_t text = 0;
};
std::optional<Gap> gap_at(std::string_view written, std::string_view text) {
  for (std::size_t total = 1; total <= 2 * widest_change; ++total)
    for (std::size_t left = 0; left <= total; ++left) {
      const Gap gap{left, total - left};
      if (gap.written > std::min(widest_change, written.size()) || gap.text > std::min(widest_change, text.size()))
        continue;
      if (agree(written.substr(gap.written), text.substr(gap.text))) return gap;
    }
  return std::nullopt;
}

// For each byte boundary of `written` its place in the text.
Result<std::vector<std::size_t>> laid_beside(std::string_view written, std::string_view text) {
  std::vector<std::size_t> places;
  places.reserve(written.size() + 1);
  std::size_t at = 0;  // in the text
  for (std::size_t i = 0; i < written.size();) {
    if (at < text.size() && written[i] == text[at]) {
      places.push_back(at++);
      ++i;
      continue;
    }
    const auto gap = gap_at(written.substr(i), text.substr(at));
    if (!gap)
      return Error{Error::Kind::bad_input,
                   fmt::format("the tokenizer changes the text so much that its tokens cannot be found in it, near "
                               "byte {} of the rendered conversation",
                               at),
                   "give prompt and completion in place of messages"};
    for (std::size_t k = 0; k < gap->written; ++k) places.push_back(std::min(at + k, at + gap->text));
    i += gap->written;
    at += gap->text;
  }
  places.push_back(at);
  return places;
}

}  // namespace

Result<std::vector<TokenPlace>> token_places(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                             std::span<const tokenizer::TokenId> tokens) {
  const bool byte_alphabet = has_byte_alphabet(tokenizer);
  std::string all;
  std::vector<std::size_t> ends;
  for (const tokenizer::TokenId token : tokens) {
    all += written(tokenizer, token, byte_alphabet);
    ends.push_back(all.size());
  }
  const auto beside = laid_beside(all, text);
  if (!beside) return beside.error();
  std::vector<TokenPlace> places;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    places.push_back({(*beside)[begin], end > begin ? (*beside)[end - 1] + 1 : (*beside)[begin]});
    places.back().end = std::clamp(places.back().end, places.back().begin, (*beside)[end]);
    begin = end;
  }
  return places;
}

}  // namespace muster::data
