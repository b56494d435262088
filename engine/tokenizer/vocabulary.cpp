#include "tokenizer/vocabulary.hpp"

#include <cstring>

namespace muster::tokenizer {
namespace {

constexpr std::uint64_t multiplier = 0x9E3779B97F4A7C15U;

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * multiplier;
  return hash ^ hash >> 32U;
}

template <class Word>
std::uint64_t load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

}  // namespace

std::uint64_t hash_of(std::string_view text) {
  const char* at = text.data();
  std::size_t left = text.size();
  std::uint64_t hash = left;
  for (; left >= 8; left -= 8, at += 8) hash = mix(hash, load<std::uint64_t>(at));
  // The rest in one word: two halves that may overlap, or up to three bytes.
  if (left >= 4)
    hash = mix(hash, load<std::uint32_t>(at) << 32U | load<std::uint32_t>(at + left - 4));
  else if (left > 0)
    hash = mix(hash, load<std::uint8_t>(at) << 16U | load<std::uint8_t>(at + left / 2) << 8U |
                         load<std::uint8_t>(at + left - 1));
  return mix(hash, left);
}

Vocabulary::Vocabulary() : slots_(1024) {}

bool Vocabulary::add(std::string_view text, TokenId id) {
  const auto index = static_cast<std::size_t>(id);
  if ((index < texts_.size() && texts_[index].length >= 0) || find(text)) return false;
  if (index >= texts_.size()) texts_.resize(index + 1);
  texts_[index] = {letters_.size(), static_cast<std::int64_t>(text.size())};
  letters_ += text;
  if (++count_ * 2 > slots_.size()) grow();
  const std::uint64_t hash = hash_of(text);
  std::size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot].id >= 0) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {static_cast<std::uint32_t>(hash >> 32U), id};
  return true;
}

std::optional<TokenId> Vocabulary::find(std::string_view text, std::uint64_t hash) const {
  const auto tag = static_cast<std::uint32_t>(hash >> 32U);
  for (std::size_t slot = hash & (slots_.size() - 1); slots_[slot].id >= 0; slot = (slot + 1) & (slots_.size() - 1))
    if (slots_[slot].tag == tag && at(slots_[slot].id) == text) return slots_[slot].id;
  return std::nullopt;
}

std::optional<std::string_view> Vocabulary::text(TokenId id) const {
  if (id < 0 || id >= end() || texts_[static_cast<std::size_t>(id)].length < 0) return std::nullopt;
  return at(id);
}

void Vocabulary::grow() {
  std::vector<Slot> larger(slots_.size() * 2);
  for (const Slot& old : slots_) {
    if (old.id < 0) continue;
    std::size_t slot = hash_of(at(old.id)) & (larger.size() - 1);
    while (larger[slot].id >= 0) slot = (slot + 1) & (larger.size() - 1);
    larger[slot] = old;
  }
  slots_ = std::move(larger);
}

}  // namespace muster::tokenizer
