#include "checkpoint/gguf_vocabulary.hpp"

#include <fmt/format.h>

#include <unordered_set>

#include "json/json_text.hpp"

namespace muster::checkpoint {
namespace {

class VocabularyReader {
 public:
  VocabularyReader(const spec::GgufHeader& header, std::string_view source) : header_(header), source_(source) {}

  template <class Value>
  const Value* find(std::string_view key) {
    const auto entry = header_.metadata.find(fmt::format("tokenizer.{}", key));
    if (entry == header_.metadata.end()) return nullptr;
    if (const auto* value = std::get_if<Value>(&entry->second)) return value;
    note(key, "is of another type than it should be");
    return nullptr;
  }
  std::string text(std::string_view key, std::string_view fallback) {
    const auto* value = find<std::string>(key);
    return value == nullptr ? std::string(fallback) : *value;
  }
  std::optional<bool> flag(std::string_view key) {
    const auto* value = find<bool>(key);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }
  std::optional<std::int64_t> token(std::string_view key, std::size_t count) {
    const auto* value = find<std::int64_t>(key);
    if (value == nullptr) return std::nullopt;
    if (*value >= 0 && static_cast<std::uint64_t>(*value) < count) return *value;
    note(key, fmt::format("is {}, and there are {} tokens", *value, count));
    return std::nullopt;
  }
  void note(std::string_view key, std::string what) {
    problems_.push_back({fmt::format("{}: tokenizer.{}", source_, key), std::move(what), ""});
  }
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  const spec::GgufHeader& header_;
  std::string_view source_;
  std::vector<Problem> problems_;
};

void read_tokens(VocabularyReader& reader, GgufVocabulary& vocabulary) {
  const auto* tokens = reader.find<spec::GgufArray>("ggml.tokens");
  if (tokens == nullptr || tokens->texts.empty()) {
    reader.note("ggml.tokens", "is not a list of texts");
    return;
  }
  vocabulary.tokens = tokens->texts;
  std::unordered_set<std::string_view> seen;
  for (const std::string& token : vocabulary.tokens)
    if (!seen.insert(token).second) {
      reader.note("ggml.tokens", fmt::format("has {} twice", shown(nlohmann::json(token))));
      return;
    }
}

void read_kinds(VocabularyReader& reader, GgufVocabulary& vocabulary) {
  vocabulary.kinds.assign(vocabulary.tokens.size(), TokenKind::normal);
  const auto* kinds = reader.find<spec::GgufArray>("ggml.token_type");
  if (kinds == nullptr) return;
  if (kinds->integers.size() != vocabulary.tokens.size()) {
    reader.note("ggml.token_type",
                fmt::format("has {} whole numbers for {} tokens", kinds->integers.size(), vocabulary.tokens.size()));
    return;
  }
  for (std::size_t i = 0; i < kinds->integers.size(); ++i) {
    const std::int64_t kind = kinds->integers[i];
    if (kind < 1 || kind > 6) {
      reader.note("ggml.token_type", fmt::format("of token {} is {}; known: 1 to 6", i, kind));
      return;
    }
    vocabulary.kinds[i] = static_cast<TokenKind>(kind);
  }
}

void read_scores_and_merges(VocabularyReader& reader, GgufVocabulary& vocabulary) {
  if (const auto* scores = reader.find<spec::GgufArray>("ggml.scores")) {
    if (scores->numbers.size() != vocabulary.tokens.size())
      reader.note("ggml.scores",
                  fmt::format("has {} numbers for {} tokens", scores->numbers.size(), vocabulary.tokens.size()));
    vocabulary.scores = scores->numbers;
  }
  if (const auto* merges = reader.find<spec::GgufArray>("ggml.merges")) vocabulary.merges = merges->texts;
}

}  // namespace

Result<GgufVocabulary> read_gguf_vocabulary(const spec::GgufHeader& header, std::string_view source) {
  VocabularyReader reader(header, source);
  GgufVocabulary vocabulary;
  vocabulary.model = reader.text("ggml.model", "");
  if (vocabulary.model.empty()) reader.note("ggml.model", "is missing: the file carries no tokenizer");
  vocabulary.pre_tokenizer = reader.text("ggml.pre", "default");
  read_tokens(reader, vocabulary);
  read_kinds(reader, vocabulary);
  read_scores_and_merges(reader, vocabulary);
  const std::size_t count = vocabulary.tokens.size();
  vocabulary.begin = reader.token("ggml.bos_token_id", count);
  vocabulary.end = reader.token("ggml.eos_token_id", count);
  vocabulary.end_of_turn = reader.token("ggml.eot_token_id", count);
  vocabulary.unknown = reader.token("ggml.unknown_token_id", count);
  vocabulary.padding = reader.token("ggml.padding_token_id", count);
  vocabulary.add_begin = reader.flag("ggml.add_bos_token");
  vocabulary.add_end = reader.flag("ggml.add_eos_token");
  vocabulary.add_space_prefix = reader.flag("ggml.add_space_prefix");
  if (const auto* text = reader.find<std::string>("chat_template")) vocabulary.chat_template = *text;
  if (!reader.problems().empty()) return to_error(reader.problems());
  return vocabulary;
}

}  // namespace muster::checkpoint
