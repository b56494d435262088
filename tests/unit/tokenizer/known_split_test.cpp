#include "tokenizer/known_split.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tokenizer/pattern.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

std::vector<Stretch> by_hand(KnownSplit split, std::string_view text) {
  std::vector<Stretch> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_word(split, text, at);
    words.push_back({at, end, true});
    at = end;
  }
  return words;
}

// Texts of the characters on whose borders the patterns turn, and of any others.
std::string drawn_text(std::mt19937& random) {
  static const std::vector<std::string> parts{"'",  "'s", "'S",        "'re",      "'LL",          "'ve",         "'m",
                                              "'d", "'t", "'\xC5\xBF", "a",        "Zz",           "\xC3\xA9",    "1",
                                              "22", " ",  "  ",        "\n",       "\r",           "\t",          "\v",
                                              "!",  "?!", "\xC2\xA0",  "\xC2\x85", "\xE2\x80\xA8", "\xE5\xAD\x97"};
  std::string text;
  for (auto length = random() % 24; length > 0; --length) {
    if (random() % 5 != 0) {
      text += parts[random() % parts.size()];
      continue;
    }
    const char32_t point = static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x3000 : 0x110000));
    append_code_point(text, point >= 0xD800 && point <= 0xDFFF ? U'?' : point);
  }
  return text;
}

class KnownSplits : public testing::TestWithParam<KnownSplit> {};

TEST_P(KnownSplits, FindWhatTheirPatternFinds) {
  const auto pattern = Pattern::expression(pattern_of(GetParam()));
  ASSERT_TRUE(pattern) << pattern.error().what;
  std::mt19937 random(7);
  for (int i = 0; i < 40'000; ++i) {
    const std::string text = drawn_text(random);
    if (text.empty()) continue;
    ASSERT_EQ(by_hand(GetParam(), text), pattern->find_all(text)) << testing::PrintToString(text);
  }
}

TEST_P(KnownSplits, AreFoundByTheirExactPatternAlone) {
  const std::string pattern(pattern_of(GetParam()));
  EXPECT_EQ(known_split(pattern), GetParam());
  EXPECT_EQ(known_split(pattern + " "), std::nullopt);
  EXPECT_EQ(known_split(pattern.substr(1)), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Each, KnownSplits,
                         testing::Values(KnownSplit::gpt2, KnownSplit::three_digits, KnownSplit::one_digit));

}  // namespace
}  // namespace muster::tokenizer
