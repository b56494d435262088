#include "data/training_row.hpp"

#include <gtest/gtest.h>

#include "testing/contains.hpp"

namespace muster::data {
namespace {

using testing::contains;

std::string refusal(std::string_view json) { return to_string(parse_training_row(json).error()); }

TEST(TrainingRow, IsReadInEachOfItsForms) {
  EXPECT_EQ(std::get<TextRow>(*parse_training_row(R"({"text": "a"})")).text, "a");
  const auto pair = std::get<PairRow>(*parse_training_row(R"({"prompt": "a", "completion": "b", "id": 7})"));
  EXPECT_EQ(pair.prompt + "|" + pair.completion, "a|b");
  const auto chat = parse_training_row(R"({"messages": [{"role": "user", "content": "a"}], "tools": []})");
  EXPECT_EQ(std::get<ConversationRow>(*chat).conversation.messages.size(), 1u);
  const auto alpaca =
      std::get<PairRow>(*parse_training_row(R"({"instruction": "Add", "input": "1 2", "output": "3"})"));
  EXPECT_TRUE(
      contains(alpaca.prompt, "paired with an input", "### Instruction:\nAdd\n\n### Input:\n1 2\n\n### Response:"));
  EXPECT_EQ(alpaca.completion, "3");
  const auto without =
      std::get<PairRow>(*parse_training_row(R"({"instruction": "Sing", "input": "", "output": "la"})"));
  EXPECT_EQ(without.prompt.find("Input"), std::string::npos);
}

TEST(TrainingRow, OfTwoFormsOrHalfOfOneIsRefusedWithWhatItHas) {
  EXPECT_TRUE(contains(refusal(R"({"text": "a", "prompt": "b", "completion": "c"})"), "two forms", "text", "prompt"));
  EXPECT_TRUE(contains(refusal(R"({"prompt": "b"})"), "no \"completion\"", "accepted:"));
  EXPECT_TRUE(contains(refusal(R"({"content": "b"})"), "only content", "accepted:"));
  EXPECT_TRUE(contains(refusal(R"({"prompt": "b", "completion": 3})"), "\"completion\" is 3"));
  EXPECT_TRUE(contains(refusal(R"({"prompt": "b", "completion": "c", "tools": []})"), "\"tools\" goes with messages"));
  EXPECT_TRUE(contains(refusal(R"({"messages": []})"), "messages"));
  EXPECT_TRUE(contains(refusal(R"({"text": "a")"), "invalid JSON", "one JSON object"));
  EXPECT_TRUE(contains(refusal(R"({"text": "a", "text": "b"})"), "twice"));
}

TEST(TrainingRow, WithoutAnythingToLearnIsRefused) {
  EXPECT_TRUE(contains(refusal(R"({"prompt": "a", "completion": ""})"), "\"completion\" is empty", "remove the row"));
  EXPECT_TRUE(contains(refusal(R"({"instruction": "a", "output": ""})"), "\"output\" is empty"));
  EXPECT_TRUE(contains(refusal(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]})"),
                       "message 2 is the assistant's and empty"));
}

TEST(TrainingRow, SaysWhichMessageIsWrongAndWhatIsAccepted) {
  EXPECT_TRUE(contains(refusal(R"({"messages": [{"role": "user", "content": "a"}, {"role": "oracle", "content": "b"}]})"),
                       "message 2 has the role \"oracle\"", "accepted: system, developer, user, assistant"));
  EXPECT_TRUE(contains(refusal(R"({"messages": [{"role": "user"}]})"), "message 1 has no \"content\""));
  EXPECT_TRUE(contains(refusal(R"({"messages": [{"role": "user", "content": null}]})"), "message 1 has the content null"));
  EXPECT_TRUE(contains(refusal(R"({"messages": [{"role": "user", "content": 3}]})"), "message 1 has the content 3"));
  EXPECT_TRUE(contains(refusal(R"({"messages": ["hello"]})"), "message 1 is \"hello\""));
  EXPECT_TRUE(contains(refusal(R"({"messages": [{"from": "human", "value": "hi"}]})"), "message 1 has no \"role\"",
                       R"({"role": "user", "content": "…"})"));
}

TEST(TrainingRow, TakesAnAnswerThatCallsAToolOrOnlyReasons) {
  for (const char* answer : {R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]})",
                             R"({"role": "assistant", "content": null, "tool_calls": [{}]})",
                             R"({"role": "assistant", "content": "", "reasoning_content": "because"})"})
    EXPECT_TRUE(parse_training_row(R"({"messages": [{"role": "user", "content": "a"}, )" + std::string(answer) + "]}"))
        << answer;
  EXPECT_TRUE(parse_training_row(R"({"messages": [{"role": "tool", "content": {"temperature": 21.5}}]})"));
}

TEST(TrainingRow, ThatIsTooLongIsRefusedWithTheLimit) {
  const std::string row = R"({"text": ")" + std::string(longest_row, 'a') + R"("})";
  EXPECT_TRUE(contains(refusal(row), "longer than 32 MiB", ".txt"));
}

}  // namespace
}  // namespace muster::data
