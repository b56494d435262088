#include "tokenizer/tokenizer.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/streaming_decoder.hpp"

namespace muster::tokenizer {
namespace {

// All bytes, a few words of "aaa…", and special tokens around a text.
std::string byte_level_file() {
  std::string vocabulary;
  int next = 0;
  const auto add = [&](std::string_view token) {
    const std::string escaped = token == "\"" || token == "\\" ? "\\" + std::string(token) : std::string(token);
    vocabulary += (next == 0 ? "" : ", ") + ("\"" + escaped + "\": ") + std::to_string(next);
    ++next;
  };
  for (unsigned byte = 0; byte < 256; ++byte) add(character_of(static_cast<unsigned char>(byte)));
  for (const std::string_view token : {"aa", "aaaa", "ab", "Ġa"}) add(token);
  return R"({"added_tokens": [{"id": 260, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
      "normalized": false, "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [260], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"vocab": {)" +
         vocabulary + R"(}, "merges": ["#version: 0.2", "a a", "aa aa", "a b", "Ġ a"]}})";
}

Tokenizer byte_level() {
  auto tokenizer = Tokenizer::parse(byte_level_file(), "tokenizer.json");
  if (!tokenizer) throw std::logic_error(tokenizer.error().what);
  return *tokenizer;
}

using Ids = std::vector<TokenId>;

TEST(Tokenizer, MergesTheLowestRankFirstAndTheLeftmostOfEqualOnes) {
  const Tokenizer tokenizer = byte_level();
  EXPECT_EQ(tokenizer.encode("aaa", false), (Ids{256, 'a'}));
  EXPECT_EQ(tokenizer.encode("aaab", false), (Ids{256, 258}));
  EXPECT_EQ(tokenizer.encode("aaaaaaa", false), (Ids{257, 256, 'a'}));
  EXPECT_EQ(tokenizer.encode(" ab", false), (Ids{' ', 258}));
}

TEST(Tokenizer, PutsSpecialTokensAroundATextOnlyWhenAsked) {
  const Tokenizer tokenizer = byte_level();
  EXPECT_EQ(tokenizer.encode("b", true), (Ids{260, 'b'}));
  EXPECT_EQ(tokenizer.encode("", true), (Ids{260}));
  EXPECT_EQ(tokenizer.encode("", false), (Ids{}));
  EXPECT_EQ(tokenizer.encode("b<s>b", false), (Ids{'b', 260, 'b'}));
}

TEST(Tokenizer, LeavesSpecialAndUnknownIdsOutOfTheText) {
  const Tokenizer tokenizer = byte_level();
  const Ids ids{260, 'x', 9999, -1, 260};
  EXPECT_EQ(tokenizer.decode(ids, true), "x");
  EXPECT_EQ(tokenizer.decode(ids, false), "<s>x<s>");
  EXPECT_TRUE(tokenizer.is_special(260));
  EXPECT_FALSE(tokenizer.is_special('x'));
  EXPECT_EQ(tokenizer.piece(259),
            "\xC4\xA0"
            "a");
  EXPECT_EQ(tokenizer.piece(9999), "");
  EXPECT_EQ(tokenizer.find("<s>"), 260);
  EXPECT_EQ(tokenizer.vocabulary(), 261);
}

TEST(Tokenizer, TakesBytesThatAreNoTextAsReplacementCharacters) {
  const Tokenizer tokenizer = byte_level();
  EXPECT_EQ(tokenizer.encode("x\xFF\xE2\x82y", false), tokenizer.encode("x\xEF\xBF\xBD\xEF\xBF\xBDy", false));
}

TEST(Tokenizer, MergesAMegabyteOfOneLetter) {
  const Tokenizer tokenizer = byte_level();
  const Ids ids = tokenizer.encode(std::string(1'000'003, 'a'), false);
  ASSERT_EQ(ids.size(), 250'002U);
  EXPECT_EQ(ids[0], 257);
  EXPECT_EQ(ids[250'000], 256);
  EXPECT_EQ(ids[250'001], 'a');
}

TEST(Tokenizer, GivesTheSameIdsToManyThreadsInTheOrderOfTheTexts) {
  const Tokenizer tokenizer = byte_level();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 500; ++i) texts.push_back(std::string(i % 37, 'a') + " b" + std::to_string(i));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto together = encode_all(tokenizer, views, true, 4);
  ASSERT_EQ(together.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(together[i], tokenizer.encode(texts[i], true));
}

TEST(StreamingDecoder, HoldsACharacterBackUntilItIsWhole) {
  const Tokenizer tokenizer = byte_level();
  StreamingDecoder decoder(tokenizer, false);
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push(0x82), "");
  EXPECT_EQ(decoder.push(0xAC), "\xE2\x82\xAC");
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push('x'), "\xEF\xBF\xBDx");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
}

TEST(StreamingDecoder, OutlivesTheTokenizerItWasGiven) {
  auto tokenizer = std::make_unique<Tokenizer>(byte_level());
  StreamingDecoder decoder(*tokenizer, true);
  tokenizer.reset();
  EXPECT_EQ(decoder.push('x'), "x");
}

constexpr std::string_view word_pieces = R"({"decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 1}]},
  "model": {"type": "BPE", "vocab": {"_a": 0, "_": 1, "<0xC3>": 2, "<0xA9>": 3, "b": 4}, "merges": []}})";

TEST(StreamingDecoder, DropsSpacesAtTheEndsAndNoOthers) {
  const auto tokenizer = Tokenizer::parse(word_pieces, "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().what;
  StreamingDecoder decoder(*tokenizer, false);
  EXPECT_EQ(decoder.push(0), "a");
  EXPECT_EQ(decoder.push(1), "");
  EXPECT_EQ(decoder.push(0), "  a");
  EXPECT_EQ(decoder.push(1), "");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(tokenizer->decode(Ids{0, 1, 0, 1}, false), "a  a");
}

TEST(StreamingDecoder, HoldsBytesBackUntilTheirRunEnds) {
  const auto tokenizer = Tokenizer::parse(word_pieces, "tokenizer.json");
  ASSERT_TRUE(tokenizer);
  StreamingDecoder decoder(*tokenizer, false);
  EXPECT_EQ(decoder.push(2), "");
  EXPECT_EQ(decoder.push(3), "");
  EXPECT_EQ(decoder.push(4),
            "\xC3\xA9"
            "b");
  EXPECT_EQ(decoder.push(2), "");
  EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
}

TEST(Pattern, ThatWouldNotEndIsGivenUpWithItsText) {
  const auto pattern = Pattern::expression("(?:a|aa|b?)+c(?<=d)");
  ASSERT_TRUE(pattern);
  try {
    const auto found = pattern->find_all(std::string(60, 'a') + "c");
    EXPECT_EQ(found, (std::vector<Stretch>{{0, 61, false}}));
  } catch (const PatternFailure& failure) {
    EXPECT_NE(std::string(failure.what()).find("(?:a|aa|b?)+c"), std::string::npos);
  }
}

TEST(Pattern, OfATextFindsItWithoutOverlaps) {
  const auto found = Pattern::text("aa").find_all("aaab");
  EXPECT_EQ(found, (std::vector<Stretch>{{0, 2, true}, {2, 4, false}}));
}

}  // namespace
}  // namespace muster::tokenizer
