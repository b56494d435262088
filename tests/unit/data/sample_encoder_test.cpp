#include "data/sample_encoder.hpp"

#include <gtest/gtest.h>

#include "byte_text.hpp"
#include "testing/contains.hpp"

namespace muster::data {
namespace {

using testing::contains;

constexpr const char* marked =
    "{% for m in messages %}{{ '<' ~ m.role ~ '>' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{{ eos_token }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
constexpr const char* unmarked =
    "{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

EncodedSamples encoded(const chat::ModelText& text, const std::string& json, std::int64_t length = 1024,
                       spec::TrainedAnswers which = spec::TrainedAnswers::all) {
  EncodedSamples out;
  const auto row = parse_training_row(json).value();
  EXPECT_TRUE(SampleEncoder::make(text, length, {which})->encode(row, out));
  return out;
}

Error refusal(const chat::ModelText& text, const std::string& json) {
  EncodedSamples out;
  return SampleEncoder::make(text, 1024)->encode(parse_training_row(json).value(), out).error();
}

// What is trained on, as text; an end-of-sequence token is "$".
std::string trained_text(const Sample& sample) {
  std::string text;
  for (const TokenSpan& span : sample.trained)
    for (std::uint32_t i = span.begin; i < span.end; ++i)
      text += sample.tokens[i] < 256 ? static_cast<char>(sample.tokens[i]) : '$';
  return text;
}

TEST(SampleEncoder, TrainsTheCompletionAndItsEndAndNothingOfThePrompt) {
  const auto out = encoded(byte_text(), R"({"prompt": "12+34=", "completion": "46"})");
  ASSERT_EQ(out.samples.size(), 1u);
  EXPECT_EQ(out.samples[0].tokens.front(), ByteTokens::begin);
  EXPECT_EQ(trained_text(out.samples[0]), "46$");
}

TEST(SampleEncoder, EndsACompletionThatEndsItselfOnlyOnce) {
  const auto out = encoded(byte_text(), R"({"prompt": "a", "completion": "b<|end|>"})");
  EXPECT_EQ(trained_text(out.samples[0]), "b$");
}

TEST(SampleEncoder, CutsALongTextIntoSamplesThatTrainEveryTokenOnce) {
  const std::string text = "The quick brown fox jumps over it.";
  for (const std::int64_t length : {2, 3, 7, 34, 35, 36, 37}) {
    const auto out = encoded(byte_text(), R"({"text": ")" + text + R"("})", length);
    std::string all;
    for (const Sample& sample : out.samples) {
      EXPECT_LE(sample.tokens.size(), static_cast<std::size_t>(length));
      all += trained_text(sample);
    }
    EXPECT_EQ(all, text + "$") << length;
    EXPECT_EQ(out.cut + out.dropped, 0);
  }
}

TEST(SampleEncoder, JoinsPartsOfADocumentAsIfItWereOne) {
  const auto text = byte_text();
  const auto encoder = SampleEncoder::make(text, 1024);
  EncodedSamples out;
  ASSERT_TRUE(encoder->encode(DocumentPart{"one\n", true, false}, out));
  ASSERT_TRUE(encoder->encode(DocumentPart{"two\n", false, false}, out));
  ASSERT_TRUE(encoder->encode(DocumentPart{"end", false, true}, out));
  ASSERT_EQ(out.samples.size(), 3u);
  EXPECT_EQ(out.samples[0].tokens, (std::vector<std::int32_t>{256, 'o', 'n', 'e', '\n'}));
  EXPECT_EQ(out.samples[1].tokens, (std::vector<std::int32_t>{'t', 'w', 'o', '\n'}));
  EXPECT_EQ(out.samples[2].tokens, (std::vector<std::int32_t>{'e', 'n', 'd', 257}));
}

TEST(SampleEncoder, TrainsWhatTheTemplateMarksAsGenerated) {
  const auto out = encoded(byte_text(marked), R"({"messages": [{"role": "user", "content": "hi"},
    {"role": "assistant", "content": "Grüße"}, {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]})");
  EXPECT_EQ(trained_text(out.samples[0]), "Grüße$y$");
  EXPECT_EQ(out.samples[0].trained.size(), 2u);
}

constexpr const char* two_turns = R"({"messages": [{"role": "user", "content": "hi"},
    {"role": "assistant", "content": "hello"}, {"role": "user", "content": "x"}, {"role": "assistant", "content": "yes"}]})";

TEST(SampleEncoder, TrainsEveryAnswerWhereTheTemplateMarksNone) {
  const auto out = encoded(byte_text(unmarked), two_turns);
  ASSERT_EQ(out.samples.size(), 1u);
  EXPECT_EQ(trained_text(out.samples[0]), "helloyes");
  EXPECT_EQ(out.samples[0].trained.size(), 2u);
  EXPECT_EQ(out.conversations, 1);
  EXPECT_EQ(out.split, 0);
}

TEST(SampleEncoder, TrainsTheLastAnswerAloneWhereThatIsAskedFor) {
  for (const char* chat_template : {marked, unmarked}) {
    const auto out = encoded(byte_text(chat_template), two_turns, 1024, spec::TrainedAnswers::last);
    ASSERT_EQ(out.samples.size(), 1u);
    EXPECT_TRUE(trained_text(out.samples[0]).starts_with("yes")) << trained_text(out.samples[0]);
  }
  // What follows the last answer is not part of the sample.
  const auto out = encoded(byte_text(unmarked), R"({"messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]})",
                           1024, spec::TrainedAnswers::last);
  EXPECT_EQ(out.samples[0].tokens.size(), std::string("<user>a<assistant>b").size());
  EXPECT_EQ(trained_text(out.samples[0]), "b");
}

TEST(SampleEncoder, GivesEachAnswerItsOwnSampleWhereEarlierTurnsAreWrittenDifferently) {
  // Reasoning is written for the last message alone.
  const std::string forgetful =
      "{% for m in messages %}{{ '<' ~ m.role ~ '>' }}{% if m.thinking and loop.last %}{{ '(' ~ m.thinking ~ ')' }}"
      "{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const auto out = encoded(byte_text(forgetful), R"({"messages": [{"role": "user", "content": "hi"},
    {"role": "assistant", "content": "hello", "thinking": "greet"}, {"role": "user", "content": "x"},
    {"role": "assistant", "content": "yes", "thinking": "agree"}]})");
  ASSERT_EQ(out.samples.size(), 2u);
  EXPECT_EQ(out.conversations, 1);
  EXPECT_EQ(out.split, 1);
  EXPECT_EQ(trained_text(out.samples[0]), "(greet)hello");
  EXPECT_EQ(trained_text(out.samples[1]), "(agree)yes");
  EXPECT_EQ(out.samples[1].tokens.size(), std::string("<user>hi<assistant>hello<user>x<assistant>(agree)yes").size());
}

TEST(SampleEncoder, BeginsAnAnswerWhereItPartsFromTheGenerationPrompt) {
  const std::string opens_reasoning = std::string(unmarked) + "{% if add_generation_prompt %}<think>{% endif %}";
  const auto out = encoded(byte_text(opens_reasoning), two_turns);
  ASSERT_EQ(out.samples.size(), 1u);
  EXPECT_EQ(trained_text(out.samples[0]), "helloyes");
}

TEST(SampleEncoder, SaysWhyAConversationHasNoClearAnswer) {
  const auto text = byte_text(unmarked);
  EXPECT_TRUE(contains(to_string(refusal(text, R"({"messages": [{"role": "user", "content": "b"}]})")),
                       "no message is the assistant's"));
  EXPECT_TRUE(contains(to_string(refusal(text, R"({"messages": [{"role": "assistant", "content": "a"}]})")),
                       "first message is the assistant's", "begin with"));
  const std::string whole =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  // The number of messages stands first, so that the text before the answer depends on the answer.
  EXPECT_TRUE(contains(to_string(refusal(byte_text("{{ messages | length }}" + std::string(unmarked)), whole)),
                       "before message 2", "differently without it"));
  const std::string wants_answers = "{% if messages[-1].role == 'user' %}{{ raise_exception('no') }}{% endif %}";
  EXPECT_TRUE(contains(to_string(refusal(byte_text(wants_answers + unmarked), whole)),
                       "does not take the first message alone", "data.train_on=last"));
  EXPECT_TRUE(contains(to_string(refusal(byte_text(), whole)), "no chat template"));
}

TEST(SampleEncoder, CutsAtTheEndAndDropsWhatIsLeftWithoutAnAnswer) {
  const std::string row = R"({"prompt": "12345", "completion": "abc"})";
  const auto cut = encoded(byte_text(), row, 8);
  EXPECT_EQ(cut.cut, 1);
  EXPECT_EQ(trained_text(cut.samples.at(0)), "ab");
  const auto dropped = encoded(byte_text(), row, 6);
  EXPECT_EQ(dropped.dropped, 1);
  EXPECT_TRUE(dropped.samples.empty());
  EXPECT_EQ(dropped.cut, 0);
}

TEST(SampleEncoder, RefusesATokenizerWithoutAnEndOfSequence) {
  auto files = byte_tokenizer_files();
  files.tokenizer_config.reset();
  files.generation_config.reset();
  const auto text = chat::ModelText::parse(files).value();
  EXPECT_TRUE(contains(SampleEncoder::make(text, 8).error().what, "end-of-sequence"));
}

}  // namespace
}  // namespace muster::data
