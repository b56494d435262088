#include "data/preference_row.hpp"

#include <gtest/gtest.h>

#include "byte_text.hpp"
#include "data/sample_encoder.hpp"
#include "testing/contains.hpp"

namespace muster::data {
namespace {

using testing::contains;

PreferredText texts(std::string_view json) { return std::get<PreferredText>(parse_preference_row(json).value()); }
PreferredMessages messages(std::string_view json) {
  return std::get<PreferredMessages>(parse_preference_row(json).value());
}
std::string refusal(std::string_view json) { return to_string(parse_preference_row(json).error()); }

std::string shown(const PreferredText& row) { return row.prompt + "|" + row.chosen + "|" + row.rejected; }

TEST(PreferenceRow, IsReadAsTextsOrMessages) {
  EXPECT_EQ(shown(texts(R"({"prompt": "p", "chosen": "c", "rejected": "r", "id": 3})")), "p|c|r");
  EXPECT_EQ(shown(texts(R"({"prompt": "", "chosen": "c", "rejected": ""})")), "|c|");
  const auto row = messages(
      R"({"prompt": [{"role": "user", "content": "p"}], "chosen": [{"role": "assistant", "content": "c"}],
          "rejected": [{"role": "assistant", "content": "r"}], "tools": [], "chat_template_kwargs": {"deep": true}})");
  EXPECT_EQ(row.prompt.messages.size(), 1u);
  EXPECT_TRUE(row.prompt.add_generation_prompt);
  EXPECT_EQ(row.chosen[0]["content"], "c");
  EXPECT_TRUE(row.prompt.tools.is_array());
  EXPECT_EQ(row.prompt.variables["deep"], true);
}

TEST(PreferenceRow, TakesTextsForWhatTheAssistantSaysAfterMessages) {
  const auto row = messages(R"({"prompt": [{"role": "user", "content": "p"}], "chosen": "c", "rejected": "r"})");
  EXPECT_EQ(row.chosen[0]["role"], "assistant");
  EXPECT_EQ(row.rejected[0]["content"], "r");
}

TEST(PreferenceRow, WithoutAPromptHasWhatBothAnswersBeginWith) {
  EXPECT_EQ(shown(texts(R"({"chosen": "The sky is blue", "rejected": "The sky is green"})")), "The sky is| blue| green");
  EXPECT_EQ(shown(texts(R"({"chosen": "1+1=2", "rejected": "1+1=23"})")), "1+1=|2|23");
  EXPECT_EQ(shown(texts(R"({"chosen": "näh", "rejected": "nöh"})")), "n|äh|öh");  // the letters share a byte
  const auto row = messages(
      R"({"chosen": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "c"}],
          "rejected": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "r"}]})");
  EXPECT_EQ(row.prompt.messages.size(), 1u);
  EXPECT_EQ(row.chosen.size(), 1u);
}

TEST(PreferenceRow, ThatPrefersNothingIsRefused) {
  EXPECT_TRUE(contains(refusal(R"({"prompt": "p", "chosen": "c"})"), "no \"rejected\"", "accepted:"));
  EXPECT_TRUE(contains(refusal(R"({"prompt": "p", "completion": "c"})"), "no \"chosen\""));
  EXPECT_TRUE(contains(refusal(R"({"prompt": "p", "chosen": "c", "rejected": "c"})"), "equal", "remove the row"));
  EXPECT_TRUE(contains(refusal(R"({"prompt": "p", "chosen": "", "rejected": "c"})"), "\"chosen\" is empty"));
  EXPECT_TRUE(contains(refusal(R"({"prompt": "p", "chosen": 3, "rejected": "c"})"), "\"chosen\" is 3"));
  EXPECT_TRUE(contains(refusal(R"({"chosen": "c", "rejected": "r"})"), "begin differently", "\"prompt\""));
  EXPECT_TRUE(contains(refusal(R"({"chosen": [{"role": "user", "content": "c"}], "rejected": [{"role": "user", "content": "r"}]})"),
                       "begin differently"));
  EXPECT_TRUE(contains(refusal(R"({"prompt": "p", "chosen": [{"role": "assistant", "content": "c"}],
                                   "rejected": [{"role": "assistant", "content": "r"}]})"),
                       "\"prompt\" is a text, and the answers are lists of messages"));
  EXPECT_TRUE(contains(refusal(R"({"prompt": "p", "chosen": "c", "rejected": [{"role": "assistant", "content": "r"}]})"),
                       "one of"));
  EXPECT_TRUE(contains(refusal(R"({"prompt": [{"role": "user", "content": "p"}], "chosen": [{"role": "assistant"}], "rejected": "r"})"),
                       "one of"));
  EXPECT_TRUE(contains(refusal(R"({"prompt": [{"role": "oracle", "content": "p"}], "chosen": "c", "rejected": "r"})"),
                       "message 1 has the role \"oracle\""));
}

// Tokens as text; an end-of-sequence token is "$", one that begins a text "^".
std::string text_of(const Sample& sample) {
  std::string text;
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    if (i == sample.trained.front().begin) text += '[';
    const std::int32_t token = sample.tokens[i];
    text += token < 256 ? static_cast<char>(token) : token == ByteTokens::end ? '$' : '^';
  }
  return text + ']';
}

EncodedSamples encoded(const chat::ModelText& text, std::string_view json, bool whole = false, std::int64_t longest = 64) {
  EncodedSamples out;
  EXPECT_TRUE(SampleEncoder::make(text, longest)->encode(parse_preference_row(json).value(), whole, out));
  return out;
}

constexpr const char* plain_row = R"({"prompt": "1+1=", "chosen": "2", "rejected": "33"})";

TEST(PreferenceSamples, AreTheChosenOneAndTheRejectedOneTrainedOnTheirAnswers) {
  const EncodedSamples out = encoded(byte_text(), plain_row);
  ASSERT_EQ(out.samples.size(), 2u);
  EXPECT_EQ(text_of(out.samples[0]), "^1+1=[2$]");
  EXPECT_EQ(text_of(out.samples[1]), "^1+1=[33$]");
  EXPECT_EQ(text_of(encoded(byte_text(), plain_row, true).samples[0]), "^[1+1=2$]");
  EXPECT_EQ(text_of(encoded(byte_text(), plain_row, true).samples[1]), "^1+1=[33$]");
}

TEST(PreferenceSamples, LoseTheirEndsTogetherOrAreLeftOutTogether) {
  const EncodedSamples cut = encoded(byte_text(), plain_row, false, 7);
  EXPECT_EQ(text_of(cut.samples[1]), "^1+1=[33]");
  EXPECT_EQ(cut.cut, 1);
  const EncodedSamples out = encoded(byte_text(), plain_row, false, 5);
  EXPECT_TRUE(out.samples.empty());
  EXPECT_EQ(out.dropped, 1);
}

TEST(PreferenceSamples, OfConversationsBeginWhereTheTemplateAsksForAnAnswer) {
  const auto chat = byte_text(
      "{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content ~ '.' }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% if deep %}hm{% endif %}{% endif %}");
  const std::string row =
      R"({"prompt": [{"role": "user", "content": "p"}], "chosen": "c", "rejected": "r", "template_variables": {"deep": )";
  EXPECT_EQ(text_of(encoded(chat, row + "false}}").samples[0]), "<user>p.<assistant>[c.]");
  // What the template asks with, and answers do not begin with, belongs to neither.
  EXPECT_EQ(text_of(encoded(chat, row + "true}}").samples[1]), "<user>p.<assistant>[r.]");
  EXPECT_EQ(encoded(chat, row + "true}}").conversations, 1);
}

TEST(PreferenceSamples, ThatATemplateWritesAlikeAreRefused) {
  const auto deaf = byte_text("{% for m in messages %}{{ '<' ~ m.role ~ '>' }}{% endfor %}");
  EncodedSamples out;
  const auto row = parse_preference_row(R"({"prompt": [{"role": "user", "content": "p"}], "chosen": "c", "rejected": "r"})");
  const auto refused = SampleEncoder::make(deaf, 64)->encode(*row, false, out);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(to_string(refused.error()), "same text", "remove the row"));
}

}  // namespace
}  // namespace muster::data
