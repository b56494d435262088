#include "data/trajectory_row.hpp"

#include <gtest/gtest.h>

#include "testing/contains.hpp"

namespace muster::data {
namespace {

using testing::contains;
using Json = nlohmann::ordered_json;

TrajectoryRow row_of(const char* json) {
  auto row = parse_trajectory(Json::parse(json));
  EXPECT_TRUE(row) << row.error().what;
  return std::move(*row);
}

std::string refusal(const char* json) {
  const auto row = parse_trajectory(Json::parse(json));
  return row ? "" : row.error().what;
}

constexpr const char* as_collected = R"({
  "observations": [{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}], "done": false},
                   {"messages": [{"role": "tool", "content": "b"}], "done": false}, {"messages": [], "done": true}],
  "actions": [{"role": "assistant", "content": "1"}, {"role": "assistant", "content": "2"}],
  "rewards": [{"value": 0.5}, {"value": -0.25}], "metadata": {"environment": "tool"}})";

TEST(TrajectoryRow, HasWhatWasSaidBeforeEachAnswerAndAfterTheLast) {
  const TrajectoryRow row = row_of(as_collected);
  EXPECT_EQ(row.conversation().messages,
            Json::parse(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "a"},
                            {"role": "assistant", "content": "1"}, {"role": "tool", "content": "b"},
                            {"role": "assistant", "content": "2"}])"));
  EXPECT_EQ(row.text_before(0), "s\na");
  EXPECT_EQ(row.text_after(0), "b");
  EXPECT_EQ(row.text_before(1), "s\na1\nb\n");
  EXPECT_EQ(row.text_after(1), "");
  EXPECT_TRUE(row.has_rewards);
  EXPECT_EQ(row.reward, 0.25);
}

TEST(TrajectoryRow, TakesObservationsThatRepeatWhatWasSaidBefore) {
  const TrajectoryRow whole = row_of(R"({
    "observations": [{"messages": [{"role": "user", "content": "a"}]},
                     {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "1"},
                                   {"role": "environment", "content": "b"}]}],
    "actions": [{"role": "assistant", "content": "1"}]})");
  EXPECT_EQ(whole.conversation().messages, Json::parse(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "1"},
                                                          {"role": "user", "content": "b"}])"));
  EXPECT_FALSE(whole.has_rewards);
}

TEST(TrajectoryRow, HasNoRewardWhereThatOfAStepIsUnknown) {
  const TrajectoryRow row = row_of(R"({"observations": [{"messages": [{"role": "user", "content": "a"}]}],
    "actions": [{"role": "assistant", "content": "1"}], "rewards": [{"value": null}]})");
  EXPECT_TRUE(row.has_rewards);
  EXPECT_EQ(row.reward, std::nullopt);
  EXPECT_EQ(row.text_after(0), "");
}

TEST(TrajectoryRow, RefusesListsThatDoNotFitEachOther) {
  constexpr const char* said = R"({"observations": [{"messages": [{"role": "user", "content": "a"}]}], )";
  const auto with = [&](const char* rest) { return refusal((std::string(said) + rest).c_str()); };
  EXPECT_TRUE(contains(with(R"("actions": []})"), "\"actions\" is"));
  EXPECT_TRUE(contains(with(R"("actions": [{"role": "assistant", "content": "1"}, {"role": "assistant", "content": "2"}]})"),
                       "1 observations and 2 actions"));
  EXPECT_TRUE(contains(with(R"("actions": [{"role": "user", "content": "1"}]})"), "actions are the assistant's"));
  EXPECT_TRUE(contains(with(R"("actions": [{"role": "assistant", "content": ""}]})"), "empty"));
  EXPECT_TRUE(contains(with(R"("actions": [{"role": "assistant", "content": "1"}], "rewards": []})"), "there are 1 actions"));
  EXPECT_TRUE(contains(with(R"("actions": [{"role": "assistant", "content": "1"}], "rewards": [{"worth": 1}]})"), "reward 1 is"));
  EXPECT_TRUE(contains(refusal(R"({"observations": [{"messages": []}], "actions": [{"role": "assistant", "content": "1"}]})"),
                       "first observation has no message"));
  EXPECT_TRUE(contains(refusal(R"({"observations": [{"done": true}], "actions": [{"role": "assistant", "content": "1"}]})"),
                       "observation 1 is"));
}

}  // namespace
}  // namespace muster::data
