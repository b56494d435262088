// Feeds mutated tokenizer.json files to the tokenizer, and mutated texts and random ids to what it accepts:
// tokenizer_fuzz [--inputs N] [--seed S]. A crash, a sanitizer report or an input that takes far too long
// ends it, with the input on standard error.
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "fuzz/fuzz_frame.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/streaming_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace muster::tokenizer {
namespace {

// One of each part; a file is put together from one choice of each.
const std::vector<std::string> normalizers{
    "null", R"({"type": "NFKC"})",
    R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": true, "strip_right": false}]})",
    R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})",
    R"({"type": "Replace", "pattern": {"Regex": "(?i:a|\\s+)$"}, "content": "é"})"};
const std::vector<std::string> pre_tokenizers{
    "null",
    R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})",
    R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true})",
    R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true}]})",
    R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})",
    R"({"type": "Split", "pattern": {"Regex": "[a-z&&[^b]]+|(?<=a)\\b|\\p{Lu}{1,3}?"}, "behavior": "MergedWithNext", "invert": true})",
    R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Contiguous", "invert": false})"};
const std::vector<std::string> post_processors{
    "null", R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true})",
    R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [9], "tokens": ["<s>"]}}})",
    R"({"type": "RobertaProcessing", "sep": ["<s>", 9], "cls": ["a", 0], "trim_offsets": true, "add_prefix_space": true})"};
const std::vector<std::string> decoders{
    "null", R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})",
    R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1}]})",
    R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})",
    R"({"type": "Sequence", "decoders": [{"type": "ByteLevel"}, {"type": "Replace", "pattern": {"Regex": "a*"}, "content": "b"}, {"type": "ByteLevel"}, {"type": "ByteFallback"}]})"};
const std::vector<std::string> models{
    R"({"type": "BPE", "dropout": null, "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "ignore_merges": false, "vocab": {"a": 0, "b": 1, "ab": 2, "▁": 3, "▁a": 4, "<unk>": 5, "<0xC3>": 6, "<0xA9>": 7, "Ġ": 8}, "merges": [["a", "b"], ["▁", "a"]]})",
    R"({"vocab": {"a": 0, "aa": 1, "aaaa": 2, "b": 3, "aab": 4, " ": 5, "é": 6, "Ġ": 7, "Ã": 8}, "merges": ["#version", "a a", "aa aa", "aa b"], "ignore_merges": true})"};
const std::vector<std::string> added{
    "[]",
    R"([{"id": 9, "content": "<s>", "single_word": false, "lstrip": true, "rstrip": true, "normalized": false, "special": true}, {"id": 10, "content": "ab ", "single_word": true, "lstrip": false, "rstrip": false, "normalized": true, "special": false}, {"id": 0, "content": "a", "single_word": true, "lstrip": false, "rstrip": false, "normalized": false, "special": false}])"};
const std::vector<std::string> words{
    "null",  "true", "false", "-1",       "0",     "1",       "16777216", "1e400", "\"\"", "\"x\"", "{}",      "[]",
    ",",     ":",    "\"",    "\\\\p{L}", "\\\\s", "+",       "*",        "?",     "{2,}", "(",     ")",       "[",
    "]",     "&&",   "(?i:",  "(?<=",     "\\\\b", "|",       "^",        "$",     ".",    "\xFF",  "\\u00e9", "type",
    "Split", "NFC",  "<s>",   "▁",        "Fuse",  "Removed", "String",   "Regex", "🙂"};
const std::vector<std::string> text_parts{
    "a",  "b",    "ab",   "aa",   " ",        "\n", "é",  "▁", "<s>",          "<0xC3>", "Ġ",
    "字", "🙂", "\xFF", "\xE2", "\xCC\x81", "1",  "'s", "ſ", "\xED\xA0\x80", "A",      "\xE1\x84\x80\xE1\x85\xA1",
    "\0x"};

class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return random_() % limit; }
  const std::string& one_of(const std::vector<std::string>& list) { return list[below(list.size())]; }

  std::string file() {
    std::string text = R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": )" + one_of(added) +
                       ", \"normalizer\": " + one_of(normalizers) + ", \"pre_tokenizer\": " + one_of(pre_tokenizers) +
                       ", \"post_processor\": " + one_of(post_processors) + ", \"decoder\": " + one_of(decoders) +
                       ", \"model\": " + one_of(models) + "}";
    // Most changes make no JSON; few of them leave enough files that are read to their end.
    for (std::size_t changes = below(4); changes > 0; --changes) change(text);
    return text;
  }

  std::string text() {
    std::string text;
    for (std::size_t parts = below(30); parts > 0; --parts) text += one_of(text_parts);
    if (below(20) == 0) text += std::string(below(3'000), "a b\n1"[below(5)]);
    return text;
  }

  std::vector<TokenId> ids() {
    std::vector<TokenId> ids(below(20));
    for (TokenId& id : ids) id = static_cast<TokenId>(below(14)) - 1;
    return ids;
  }

 private:
  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 1:
        text.insert(at, one_of(words));
        break;
      case 2:
        text.erase(at, below(12));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(60)));
        break;
      case 4:
        insert_into_pattern(text);
        break;
      default: {
        const std::string& word = one_of(words);
        text.replace(at, word.size(), word);
      }
    }
  }

  // A regular expression that is still a JSON text.
  void insert_into_pattern(std::string& text) {
    const std::size_t pattern = text.find("\"Regex\": \"");
    if (pattern == text.npos) return;
    const std::size_t begin = pattern + 10, end = text.find('"', begin);
    if (end == text.npos) return;
    text.insert(begin + below(end - begin + 1), one_of(words));
  }

  std::mt19937_64 random_;
};

// What is accepted must be usable, and its parts must agree.
void use(const Tokenizer& tokenizer, Drawer& drawer) {
  const std::string text = drawer.text();
  fuzz::watched += "\n" + text;
  std::vector<TokenId> ids = tokenizer.encode(text, drawer.below(2) == 0);
  for (const TokenId id : ids)
    if (id < 0) throw std::logic_error("a negative id");
  if (drawer.below(2) == 0) ids = drawer.ids();
  const bool skip = drawer.below(2) == 0;
  const std::string whole = tokenizer.decode(ids, skip);
  StreamingDecoder decoder(tokenizer, skip);
  std::string together;
  for (const TokenId id : ids) {
    const std::string part = decoder.push(id);
    if (!is_utf8(part)) throw std::logic_error("a part that is no text");
    together += part;
  }
  if (together + decoder.finish() != whole) throw std::logic_error("the parts of a text are not the text");
  for (const TokenId id : drawer.ids()) {
    const std::string_view piece = tokenizer.piece(id);
    static_cast<void>(tokenizer.find(piece));
  }
}

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed) : drawer_(seed) {}

  void one() {
    ++tried_;
    fuzz::watched = drawer_.file();
    const auto tokenizer = Tokenizer::parse(fuzz::watched, "fuzz");
    if (!tokenizer) return;
    ++accepted_;
    try {
      use(*tokenizer, drawer_);
    } catch (const PatternFailure&) {
      ++given_up_;
    }
  }
  std::vector<fuzz::Reached> reached() const {
    return {{"accepted", accepted_, tried_ / 20}, {"patterns_given_up", given_up_, 0}};
  }

 private:
  Drawer drawer_;
  std::size_t tried_ = 0, accepted_ = 0, given_up_ = 0;
};

}  // namespace
}  // namespace muster::tokenizer

int main(int count, char** words) {
  return muster::fuzz::run<muster::tokenizer::Fuzzer>("tokenizer_fuzz", count, words, 2'000, 1'000);
}
