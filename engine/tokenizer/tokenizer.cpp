#include "tokenizer/tokenizer.hpp"

#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "base/text.hpp"
#include "tokenizer/streaming_decoder.hpp"
#include "tokenizer/tokenizer_state.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

bool is_ascii(std::string_view text) {
  constexpr std::uint64_t high_bits = 0x8080808080808080U;
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & high_bits) != 0) return false;
  }
  for (; at < text.size(); ++at)
    if (byte_at(text, at) >= 0x80) return false;
  return true;
}

// The whole text: its first character is its head.
Section whole(std::string_view text) { return {text, text.empty() ? 0 : character_length(text[0])}; }

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<TokenId> ids;
  encode_into(text, add_special_tokens, ids);
  return ids;
}

void Tokenizer::encode_into(std::string_view text, bool add_special_tokens, std::vector<TokenId>& ids) const {
  std::string repaired;
  if (!is_ascii(text) && !is_utf8(text)) {
    repaired = with_replacements(text);
    text = repaired;
  }
  const State& state = *state_;
  auto workspace = state.workspaces.borrow([] { return std::make_unique<BytePairWorkspace>(); });
  const auto add_token = [&](TokenId id) { ids.push_back(id); };
  const auto add_words = [&](Section section) {
    state.pre_tokenizer.split(section, [&](std::string_view word) { state.model->encode(word, *workspace, ids); });
  };
  const auto add_normalized = [&](Section section) {
    state.in_normalized_text.split(
        section.text, [&](std::size_t begin, std::size_t end) { add_words(section.part(begin, end)); }, add_token);
  };
  if (add_special_tokens) ids.insert(ids.end(), state.post_processor.before.begin(), state.post_processor.before.end());
  state.in_text.split(
      text,
      [&](std::size_t begin, std::size_t end) {
        const Section section = whole(text).part(begin, end);
        if (state.normalizer.empty())
          add_normalized(section);
        else
          add_normalized(state.normalizer.apply(section).view());
      },
      add_token);
  if (add_special_tokens) ids.insert(ids.end(), state.post_processor.behind.begin(), state.post_processor.behind.end());
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  StreamingDecoder decoder(*this, skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

std::string_view Tokenizer::piece(TokenId id) const {
  if (const auto added = state_->added.find(id); added != state_->added.end()) return added->second.piece;
  return state_->vocabulary->text(id).value_or(std::string_view());
}

std::optional<TokenId> Tokenizer::find(std::string_view piece) const {
  if (const auto added = state_->added_ids.find(std::string(piece)); added != state_->added_ids.end())
    return added->second;
  return state_->vocabulary->find(piece);
}

std::int64_t Tokenizer::vocabulary() const { return state_->end; }

bool Tokenizer::is_special(TokenId id) const {
  const auto added = state_->added.find(id);
  return added != state_->added.end() && added->second.special;
}

StreamingDecoder::StreamingDecoder(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)),
      skip_special_tokens_(skip_special_tokens),
      run_(std::make_unique<DecoderRun>(tokenizer_.state_->decoder)) {}
StreamingDecoder::StreamingDecoder(StreamingDecoder&&) noexcept = default;
StreamingDecoder& StreamingDecoder::operator=(StreamingDecoder&&) noexcept = default;
StreamingDecoder::~StreamingDecoder() = default;

std::string StreamingDecoder::push(TokenId id) {
  const Tokenizer::State& state = *tokenizer_.state_;
  if (const auto added = state.added.find(id); added != state.added.end()) {
    if (!(skip_special_tokens_ && added->second.skipped)) run_->push(added->second.piece);
  } else if (const auto piece = state.vocabulary->text(id)) {
    run_->push(*piece);
  }
  return run_->take();
}

std::string StreamingDecoder::finish() {
  run_->finish();
  return run_->take();
}

std::vector<std::vector<TokenId>> encode_all(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                                             bool add_special_tokens, int threads) {
  std::vector<std::vector<TokenId>> results(texts.size());
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;  // the first one; the others stop at their next text
  std::mutex gate;
  const auto work = [&] {
    try {
      for (std::size_t i; (i = next.fetch_add(1)) < texts.size();)
        tokenizer.encode_into(texts[i], add_special_tokens, results[i]);
    } catch (...) {
      const std::lock_guard lock(gate);
      if (!failure) failure = std::current_exception();
      next = texts.size();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < threads && static_cast<std::size_t>(i) < texts.size(); ++i) helpers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return results;
}

}  // namespace muster::tokenizer
