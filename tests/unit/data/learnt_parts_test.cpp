// What is learnt of conversations: answers, what is said to them, or both.
#include <gtest/gtest.h>

#include "byte_text.hpp"
#include "data/newest_trajectories.hpp"
#include "data/sample_encoder.hpp"
#include "testing/contains.hpp"

namespace muster::data {
namespace {

using testing::contains;
using spec::SftMode;

constexpr const char* plain =
    "{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content ~ '.' }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
// As Qwen 3: the last answer has reasoning.
constexpr const char* reasoning =
    "{% for m in messages %}{{ '<' ~ m.role ~ '>' }}{% if m.role == 'assistant' and loop.last %}*{% endif %}{{ m.content ~ '.' }}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
// Only the last answer keeps its exclamation mark.
constexpr const char* forgetful =
    "{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content }}{% if m.role == 'assistant' and loop.last %}!{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

constexpr const char* trajectory =
    R"({"observations": [{"messages": [{"role": "user", "content": "ab"}]}, {"messages": [{"role": "tool", "content": "cd"}]},
                         {"messages": [{"role": "user", "content": "ef"}]}],
        "actions": [{"role": "assistant", "content": "12"}, {"role": "assistant", "content": "34"}],
        "rewards": [{"value": 0.5}, {"value": 0.25}]})";

Result<EncodedSamples> encode(const chat::ModelText& text, const std::string& json, LearntParts parts) {
  EncodedSamples out;
  const auto row = parse_training_row(json);
  if (!row) return row.error();
  if (auto done = SampleEncoder::make(text, 1024, parts)->encode(*row, out); !done) return done.error();
  return out;
}

// The trained spans of each sample in words: those of others in brackets, an end of sequence "$".
std::vector<std::string> spoken(const EncodedSamples& encoded) {
  std::vector<std::string> texts;
  for (const Sample& sample : encoded.samples) {
    std::string& text = texts.emplace_back();
    for (const TokenSpan& span : sample.trained) {
      text += span.speaker == Speaker::others ? "[" : "(";
      for (std::uint32_t i = span.begin; i < span.end; ++i)
        text += sample.tokens[i] < 256 ? static_cast<char>(sample.tokens[i]) : '$';
      text += span.speaker == Speaker::others ? "]" : ")";
    }
  }
  return texts;
}

std::vector<std::string> spoken(const chat::ModelText& text, const std::string& json, SftMode mode) {
  const auto encoded = encode(text, json, {.mode = mode});
  EXPECT_TRUE(encoded) << encoded.error().what;
  return spoken(*encoded);
}

using Texts = std::vector<std::string>;

TEST(LearntParts, AreAnswersWhatIsSaidToThemOrBoth) {
  const auto text = byte_text(plain);
  EXPECT_EQ(spoken(text, trajectory, SftMode::behavioral_cloning), (Texts{"(12.)(34.)"}));
  EXPECT_EQ(spoken(text, trajectory, SftMode::world_model), (Texts{"[<tool>cd.][<user>ef.]"}));
  EXPECT_EQ(spoken(text, trajectory, SftMode::combined), (Texts{"(12.)[<tool>cd.](34.)[<user>ef.]"}));
}

TEST(LearntParts, OfRowsOfMessagesAreTheSame) {
  const std::string row = R"({"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "12"},
                                           {"role": "user", "content": "cd"}]})";
  EXPECT_EQ(spoken(byte_text(plain), row, SftMode::combined), (Texts{"(12.)[<user>cd.]"}));
}

TEST(LearntParts, GetTextsOfTheirOwnWhereATemplateWritesEarlierTurnsInAnotherWay) {
  const auto text = byte_text(forgetful);
  EXPECT_EQ(spoken(text, trajectory, SftMode::behavioral_cloning), (Texts{"(12!)", "(34!)"}));
  const auto refused = encode(text, trajectory, {.mode = SftMode::world_model});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().what, "differently once it is replied to"));
}

TEST(LearntParts, AreFoundWhereATemplateWritesReasoningOfTheLastTurnAlone) {
  const auto text = byte_text(reasoning);
  EXPECT_EQ(spoken(text, trajectory, SftMode::world_model), (Texts{"[<tool>cd.][<user>ef.]"}));
  EXPECT_EQ(spoken(text, trajectory, SftMode::combined), (Texts{"(*12.)", "(*34.)", "[<tool>cd.]", "[<user>ef.]"}));
}

TEST(LearntParts, ArePairsWhereThereIsNoTemplate) {
  const auto text = byte_text();
  EXPECT_EQ(spoken(text, trajectory, SftMode::behavioral_cloning), (Texts{"(12$)", "(34$)"}));
  EXPECT_EQ(spoken(text, trajectory, SftMode::world_model), (Texts{"[cd$]", "[ef$]"}));
  const auto both = encode(text, trajectory, {.mode = SftMode::combined});
  ASSERT_TRUE(both);
  EXPECT_EQ(spoken(*both), (Texts{"(12$)", "[cd$]", "(34$)", "[ef$]"}));
  std::string read;
  for (const std::int32_t token : both->samples[3].tokens)
    if (token < 256) read += static_cast<char>(token);
  EXPECT_EQ(read, "ab12\ncd\n34\nef");
}

TEST(LearntParts, LeaveOutATrajectoryThatEarnedLess) {
  const auto earned = [&](double least) {
    return encode(byte_text(plain), trajectory, {.trajectories = {.least_reward = least}});
  };
  EXPECT_EQ(earned(0.75)->samples.size(), 1u);
  EXPECT_EQ(earned(0.75)->poor, 0);
  EXPECT_EQ(earned(0.76)->samples.size(), 0u);
  EXPECT_EQ(earned(0.76)->poor, 1);
}

TEST(LearntParts, AreRefusedWhereARowHasNone) {
  const auto text = byte_text(plain);
  const std::string pair = R"({"prompt": "a", "completion": "b"})";
  EXPECT_TRUE(contains(encode(text, pair, {.mode = SftMode::world_model}).error().what, "sft.mode=world_model learns that"));
  EXPECT_TRUE(contains(encode(text, pair, {.trajectories = {.most = 3}}).error().what, "the row is not a trajectory"));
  const std::string without = R"({"observations": [{"messages": [{"role": "user", "content": "a"}]}],
                                  "actions": [{"role": "assistant", "content": "1"}]})";
  EXPECT_TRUE(contains(encode(text, without, {.trajectories = {.least_reward = 0}}).error().what, "has no \"rewards\""));
  EXPECT_EQ(encode(text, without, {.mode = SftMode::world_model})->dropped, 1);
}

TEST(NewestTrajectories, KeepsTheSamplesOfTheLastOnes) {
  NewestTrajectories newest(2);
  const auto sample = [](std::int32_t token) { return Sample{{token, token}, {{1, 2}}}; };
  newest.add({.samples = {sample(1), sample(2), sample(3)}, .trajectories = {1, 2}});
  newest.add({.samples = {sample(4)}, .trajectories = {1}});
  EXPECT_EQ(newest.samples(), (std::vector<Sample>{sample(2), sample(3), sample(4)}));
  EXPECT_EQ(newest.left_out(), 1);
}

}  // namespace
}  // namespace muster::data
