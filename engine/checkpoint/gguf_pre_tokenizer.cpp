#include "checkpoint/gguf_pre_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace muster::checkpoint {
namespace {

enum class Cut { gpt2, digits_and_gpt2, pattern };

struct Row {
  std::string_view word;
  Cut cut;
  std::string_view pattern;  // of Cut::pattern
  bool composed;             // text is brought into Unicode's form NFC first
  bool whole_words_first;
  bool begins_with_token;
};

// The patterns of the models' own tokenizer.json.
constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view tekken_pattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array rows{
    Row{"default", Cut::gpt2, "", false, false, false},
    Row{"gpt-2", Cut::gpt2, "", false, false, false},
    Row{"llama-bpe", Cut::pattern, llama3_pattern, false, true, true},
    Row{"llama-v3", Cut::pattern, llama3_pattern, false, true, true},
    Row{"llama3", Cut::pattern, llama3_pattern, false, true, true},
    Row{"qwen2", Cut::pattern, qwen2_pattern, true, false, false},
    Row{"smollm", Cut::digits_and_gpt2, "", false, false, false},
    Row{"tekken", Cut::pattern, tekken_pattern, false, true, true},
};

constexpr std::string_view byte_level_beginning =
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":)";

std::string pre_tokenizer_json(const Row& row) {
  const std::string with_pattern = fmt::format("{}true}}", byte_level_beginning),
                    bytes_alone = fmt::format("{}false}}", byte_level_beginning);
  if (row.cut == Cut::gpt2) return with_pattern;
  if (row.cut == Cut::digits_and_gpt2)
    return fmt::format(R"({{"type":"Sequence","pretokenizers":[{{"type":"Digits","individual_digits":true}},{}]}})",
                       with_pattern);
  return fmt::format(
      R"({{"type":"Sequence","pretokenizers":[{{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated","invert":false}},{}]}})",
      nlohmann::json(row.pattern).dump(), bytes_alone);
}

}  // namespace

std::optional<PreTokenizer> pre_tokenizer_named(std::string_view word) {
  const auto row = std::ranges::find(rows, word, &Row::word);
  if (row == rows.end()) return std::nullopt;
  return PreTokenizer{row->composed ? R"({"type":"NFC"})" : "null", pre_tokenizer_json(*row), row->whole_words_first,
                      row->begins_with_token};
}

std::vector<std::string> pre_tokenizer_words() {
  std::vector<std::string> words;
  for (const Row& row : rows) words.emplace_back(row.word);
  return words;
}

}  // namespace muster::checkpoint
