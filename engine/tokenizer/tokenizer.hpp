// Text to token ids and back, as a Hugging Face tokenizer.json says. Ids and text are those of the `tokenizers`
// library.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "tokenizer/token_id.hpp"

namespace muster::tokenizer {

// Immutable, cheap to copy, and safe to use from many threads at once.
class Tokenizer {
 public:
  // Refused, with everything that is wrong named: what is not a tokenizer.json, and unsupported parts or keys.
  // Nothing of a file is skipped. source: the file's name, for messages.
  static Result<Tokenizer> parse(std::string_view tokenizer_json, std::string_view source);

  // Special tokens written in the text are recognised. add_special_tokens: also those that the post-processor puts
  // around a text. text is UTF-8; other bytes count as U+FFFD. Throws PatternFailure where the file's own
  // patterns would not finish on the text, or would make it grow without bound.
  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const;
  // The same, appended.
  void encode_into(std::string_view text, bool add_special_tokens, std::vector<TokenId>& ids) const;

  // Ids that no token has are left out. Throws as encode does.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const;

  // The token as the file writes it ("Ġthe", "▁the"); empty for an id that no token has.
  std::string_view piece(TokenId id) const;
  std::optional<TokenId> find(std::string_view piece) const;
  // One more than the largest id.
  std::int64_t vocabulary() const;
  bool is_special(TokenId id) const;

 private:
  friend class StreamingDecoder;
  friend class TokenizerFile;
  struct State;

  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

// The tokenizer of a model's folder, or of a tokenizer.json itself.
Result<Tokenizer> read_tokenizer(const std::filesystem::path& file_or_folder);

// Ids of many texts, in their order, with that many threads (at least one).
std::vector<std::vector<TokenId>> encode_all(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                                             bool add_special_tokens, int threads);

}  // namespace muster::tokenizer
