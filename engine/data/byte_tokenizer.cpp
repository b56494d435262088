#include "data/byte_tokenizer.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "tokenizer/byte_alphabet.hpp"

namespace muster::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* begin_text = "<|begin|>";
constexpr const char* end_text = "<|end|>";
constexpr const char* padding_text = "<|padding|>";
constexpr std::array<std::pair<std::int32_t, const char*>, 3> special{
    {{ByteTokens::begin, begin_text}, {ByteTokens::end, end_text}, {ByteTokens::padding, padding_text}}};

Json vocabulary() {
  Json table = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    table[std::string(tokenizer::character_of(static_cast<unsigned char>(byte)))] = byte;
  return table;
}

Json byte_level(bool add_prefix_space) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", false}};
}

Json added_tokens() {
  Json list = Json::array();
  for (const auto& [id, text] : special)
    list.push_back({{"id", id},
                    {"content", text},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", true}});
  return list;
}

// The begin token before a text.
Json post_processor() {
  const Json begin{{"SpecialToken", {{"id", begin_text}, {"type_id", 0}}}};
  const Json first{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, second{{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({begin, first})},
          {"pair", Json::array({begin, first, second})},
          {"special_tokens",
           {{begin_text,
             {{"id", begin_text}, {"ids", Json::array({ByteTokens::begin})}, {"tokens", Json::array({begin_text})}}}}}};
}

Json tokenizer_json() {
  const Json model{{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", false},
                   {"vocab", vocabulary()},
                   {"merges", Json::array()}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level(false)},
          {"post_processor", post_processor()},
          {"decoder", byte_level(true)},
          {"model", model}};
}

}  // namespace

chat::ModelTextFiles byte_tokenizer_files() {
  chat::ModelTextFiles files;
  files.source = "the byte tokenizer";
  files.tokenizer = tokenizer_json().dump(2) + "\n";
  const Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                    {"bos_token", begin_text},
                    {"eos_token", end_text},
                    {"pad_token", padding_text},
                    {"clean_up_tokenization_spaces", false}};
  files.tokenizer_config = config.dump(2) + "\n";
  const Json generation{
      {"bos_token_id", ByteTokens::begin}, {"eos_token_id", ByteTokens::end}, {"pad_token_id", ByteTokens::padding}};
  files.generation_config = generation.dump(2) + "\n";
  return files;
}

}  // namespace muster::data
