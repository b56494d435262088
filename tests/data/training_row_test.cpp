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
  EXPECT_TRUE(contains(refusal(R"({"text": "a")"), "no valid JSON", "one JSON object"));
  EXPECT_TRUE(contains(refusal(R"({"text": "a", "text": "b"})"), "twice"));
}

}  // namespace
}  // namespace muster::data
