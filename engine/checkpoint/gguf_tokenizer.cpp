#include "checkpoint/gguf_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/text.hpp"
#include "checkpoint/gguf_pre_tokenizer.hpp"
#include "checkpoint/gguf_vocabulary.hpp"
#include "checkpoint/score_merges.hpp"
#include "json/json_text.hpp"

namespace muster::checkpoint {
namespace {

using json = nlohmann::ordered_json;

// The text in quotes.
std::string as_json(std::string_view text) {
  const auto needs_escape = [](char byte) {
    return byte == '"' || byte == '\\' || static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F;
  };
  if (std::ranges::any_of(text, needs_escape)) return json(text).dump();
  std::string plain;
  plain.reserve(text.size() + 2);
  plain += '"';
  plain += text;
  plain += '"';
  return plain;
}

Error refusal(std::string_view source, std::string what, std::string remedy = {}) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", source, what), std::move(remedy)};
}

// Byte-level vocabularies write each byte as a character that can be seen: most of Latin-1 as itself, the others as the
// characters from U+0100 on, in order.
constexpr bool is_shown_as_itself(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

std::array<std::string, 256> byte_characters() {
  std::array<std::string, 256> characters;
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned code = is_shown_as_itself(byte) ? byte : next++;
    characters[byte] = code < 128
                           ? std::string(1, static_cast<char>(code))
                           : std::string{static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  }
  return characters;
}

class ByteAlphabet {
 public:
  ByteAlphabet(const ByteAlphabet&) = delete;  // known_ refers to characters_
  ByteAlphabet() : characters_(byte_characters()), known_(characters_.begin(), characters_.end()) {}

  bool spells(std::string_view token) const {
    while (!token.empty()) {
      const std::size_t length =
          static_cast<unsigned char>(token[0]) < 128 ? 1 : std::min<std::size_t>(2, token.size());
      if (!known_.contains(token.substr(0, length))) return false;
      token.remove_prefix(length);
    }
    return true;
  }
  std::string spelled(std::string_view text) const {
    std::string out;
    for (const char byte : text) out += characters_[static_cast<unsigned char>(byte)];
    return out;
  }

 private:
  std::array<std::string, 256> characters_;
  std::unordered_set<std::string_view> known_;
};

// The two sorts of tokens that are looked for in the text before it is cut.
bool is_special(const GgufVocabulary& vocabulary, std::size_t id) {
  const auto named = [id](std::optional<std::int64_t> token) {
    return token && static_cast<std::size_t>(*token) == id;
  };
  return vocabulary.kinds[id] == TokenKind::control || named(vocabulary.begin) || named(vocabulary.end) ||
         named(vocabulary.unknown) || named(vocabulary.padding);
}
bool is_added(const GgufVocabulary& vocabulary, std::size_t id) {
  return vocabulary.kinds[id] == TokenKind::user_defined || is_special(vocabulary, id);
}

std::string added_tokens_json(const GgufVocabulary& vocabulary) {
  std::string text;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!is_added(vocabulary, id)) continue;
    text += fmt::format(
        R"({}{{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":{}}})",
        text.empty() ? "" : ",\n", id, as_json(vocabulary.tokens[id]), is_special(vocabulary, id));
  }
  return text;
}

std::string vocabulary_json(const std::vector<std::string>& tokens) {
  std::string text;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    text += fmt::format("{}{}:{}", id == 0 ? "" : ",\n", as_json(tokens[id]), id);
  return text;
}

template <class Pairs>
std::string merges_json(const Pairs& merges) {
  std::string text;
  for (const auto& [left, right] : merges)
    text += fmt::format("{}[{},{}]", text.empty() ? "" : ",\n", as_json(left), as_json(right));
  return text;
}

// Whether the begin token is put in front where the file does not say.
bool begins_by_default(const GgufVocabulary& vocabulary) {
  if (vocabulary.model == "llama") return true;
  const auto cut = pre_tokenizer_named(vocabulary.pre_tokenizer);
  return cut && cut->begins_with_token;
}
bool adds_begin(const GgufVocabulary& vocabulary) {
  return vocabulary.begin && vocabulary.add_begin.value_or(begins_by_default(vocabulary));
}
bool adds_end(const GgufVocabulary& vocabulary) { return vocabulary.end && vocabulary.add_end.value_or(false); }

const std::string& token(const GgufVocabulary& vocabulary, std::optional<std::int64_t> id) {
  return vocabulary.tokens[static_cast<std::size_t>(id.value())];
}

// "null" where nothing is put around a text.
std::string template_json(const GgufVocabulary& vocabulary) {
  if (!adds_begin(vocabulary) && !adds_end(vocabulary)) return "null";
  json single = json::array(), pair = json::array(), specials = json::object();
  const auto add_special = [&](json& list, std::optional<std::int64_t> id, int type) {
    const std::string& text = token(vocabulary, id);
    list.push_back({{"SpecialToken", {{"id", text}, {"type_id", type}}}});
    specials[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
  };
  const auto add_part = [&](json& list, const char* name, int type) {
    if (adds_begin(vocabulary)) add_special(list, vocabulary.begin, type);
    list.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    if (adds_end(vocabulary)) add_special(list, vocabulary.end, type);
  };
  add_part(single, "A", 0);
  add_part(pair, "A", 0);
  add_part(pair, "B", 1);
  return json{{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}}.dump();
}

// The parts of a tokenizer.json that differ, each as JSON.
struct Parts {
  std::string normalizer, pre_tokenizer, post_processor, decoder, unknown, switches, vocabulary, merges;
};

std::string assemble(const GgufVocabulary& vocabulary, const Parts& parts) {
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,
"added_tokens":[{}],
"normalizer":{},
"pre_tokenizer":{},
"post_processor":{},
"decoder":{},
"model":{{"type":"BPE","dropout":null,"unk_token":{},"continuing_subword_prefix":null,"end_of_word_suffix":null,{},
"vocab":{{{}}},
"merges":[{}]}}}}
)",
      added_tokens_json(vocabulary), parts.normalizer, parts.pre_tokenizer, parts.post_processor, parts.decoder,
      parts.unknown, parts.switches, parts.vocabulary, parts.merges);
}

using Merges = std::vector<std::pair<std::string_view, std::string_view>>;

// "a b" → a, b; both and what they make must be tokens.
Result<Merges> split_merges(const GgufVocabulary& vocabulary, const std::vector<std::string>& spelled,
                            std::string_view source) {
  const std::unordered_set<std::string_view> known(spelled.begin(), spelled.end());
  Merges merges;
  merges.reserve(vocabulary.merges.size());
  for (const std::string& merge : vocabulary.merges) {
    const std::size_t blank = merge.find(' ');
    const std::string_view left = std::string_view(merge).substr(0, blank);
    const std::string_view right =
        blank == std::string::npos ? std::string_view{} : std::string_view(merge).substr(blank + 1);
    if (!known.contains(left) || !known.contains(right) || !known.contains(std::string(left) + std::string(right)))
      return refusal(source, fmt::format("tokenizer.ggml.merges has {}, which does not make a token of two tokens",
                                         shown(nlohmann::json(merge))));
    merges.emplace_back(left, right);
  }
  return merges;
}

constexpr std::string_view byte_level_step =
    R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true})";

Result<std::string> byte_level_json(const GgufVocabulary& vocabulary, std::string_view source) {
  const auto cut = pre_tokenizer_named(vocabulary.pre_tokenizer);
  if (!cut)
    return refusal(
        source,
        fmt::format("tokenizer.ggml.pre {} is not known", shown(nlohmann::json(vocabulary.pre_tokenizer))),
        fmt::format("known: {}; use the model's Hugging Face folder, which has a tokenizer.json",
                    join(pre_tokenizer_words(), ", ")));
  const ByteAlphabet alphabet;
  std::vector<std::string> spelled = vocabulary.tokens;
  for (std::size_t id = 0; id < spelled.size(); ++id)
    if (!is_added(vocabulary, id) && !alphabet.spells(spelled[id])) spelled[id] = alphabet.spelled(spelled[id]);
  std::unordered_set<std::string_view> seen;
  for (const std::string& text : spelled)
    if (!seen.insert(text).second)
      return refusal(source, fmt::format("two tokens are spelled {}", shown(nlohmann::json(text))));
  const auto merges = split_merges(vocabulary, spelled, source);
  if (!merges) return merges.error();
  const std::string around = template_json(vocabulary);
  return assemble(
      vocabulary,
      {std::string(cut->normalizer), cut->pre_tokenizer,
       around == "null" ? std::string(byte_level_step)
                        : fmt::format(R"({{"type":"Sequence","processors":[{},{}]}})", byte_level_step, around),
       std::string(byte_level_step), "null",
       fmt::format(R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":{})", cut->whole_words_first),
       vocabulary_json(spelled), merges_json(*merges)});
}

Result<std::string> sentencepiece_json(const GgufVocabulary& vocabulary, std::string_view source) {
  if (vocabulary.merges.empty() && vocabulary.scores.empty())
    return refusal(source, "tokenizer.ggml.scores and tokenizer.ggml.merges are missing");
  for (const double score : vocabulary.scores)
    if (std::isnan(score)) return refusal(source, "tokenizer.ggml.scores holds something that is not a number");
  Result<Merges> merges =
      vocabulary.merges.empty() ? merges_from_scores(vocabulary) : split_merges(vocabulary, vocabulary.tokens, source);
  if (!merges) return merges.error();
  const bool prefix = vocabulary.add_space_prefix.value_or(true);
  const std::string strip = prefix ? R"(,{"type":"Strip","content":" ","start":1,"stop":0})" : "";
  return assemble(
      vocabulary,
      {"null",
       fmt::format(R"({{"type":"Metaspace","replacement":"▁","prepend_scheme":"{}","split":false}})",
                   prefix ? "first" : "never"),
       template_json(vocabulary),
       fmt::format(
           R"({{"type":"Sequence","decoders":[{{"type":"Replace","pattern":{{"String":"▁"}},"content":" "}},{{"type":"ByteFallback"}},{{"type":"Fuse"}}{}]}})",
           strip),
       vocabulary.unknown ? as_json(token(vocabulary, vocabulary.unknown)) : "null",
       R"("fuse_unk":true,"byte_fallback":true,"ignore_merges":false)", vocabulary_json(vocabulary.tokens),
       merges_json(*merges)});
}

}  // namespace

Result<std::string> gguf_tokenizer_json(const spec::GgufHeader& header, std::string_view source) {
  const auto vocabulary = read_gguf_vocabulary(header, source);
  if (!vocabulary) return vocabulary.error();
  if (vocabulary->model == "gpt2") return byte_level_json(*vocabulary, source);
  if (vocabulary->model == "llama") return sentencepiece_json(*vocabulary, source);
  return refusal(source,
                 fmt::format("tokenizer.ggml.model {} is not known", shown(nlohmann::json(vocabulary->model))),
                 "known: gpt2 (byte-level BPE), llama (SentencePiece's BPE)");
}

Result<std::string> gguf_tokenizer_config_json(const spec::GgufHeader& header, std::string_view source) {
  const auto vocabulary = read_gguf_vocabulary(header, source);
  if (!vocabulary) return vocabulary.error();
  json object{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  object["add_bos_token"] = adds_begin(*vocabulary);
  object["add_eos_token"] = adds_end(*vocabulary);
  if (vocabulary->model == "llama") object["add_prefix_space"] = vocabulary->add_space_prefix.value_or(true);
  const auto name = [&](const char* key, std::optional<std::int64_t> id) {
    if (id) object[key] = token(*vocabulary, id);
  };
  name("bos_token", vocabulary->begin);
  name("eos_token", vocabulary->end);
  name("unk_token", vocabulary->unknown);
  name("pad_token", vocabulary->padding);
  if (vocabulary->chat_template) object["chat_template"] = *vocabulary->chat_template;
  return object.dump(2) + "\n";
}

Result<std::string> gguf_chat_template(const spec::GgufHeader& header, std::string_view source) {
  const auto vocabulary = read_gguf_vocabulary(header, source);
  if (!vocabulary) return vocabulary.error();
  return vocabulary->chat_template.value_or("");
}

Result<spec::TokenIds> gguf_token_ids(const spec::GgufHeader& header, std::string_view source) {
  const auto vocabulary = read_gguf_vocabulary(header, source);
  if (!vocabulary) return vocabulary.error();
  spec::TokenIds ids{.begin = vocabulary->begin, .padding = vocabulary->padding, .ends = {}};
  if (vocabulary->end) ids.ends.push_back(*vocabulary->end);
  if (vocabulary->end_of_turn && vocabulary->end_of_turn != vocabulary->end)
    ids.ends.push_back(*vocabulary->end_of_turn);
  return ids;
}

}  // namespace muster::checkpoint
