#include "spec/environment/evaluation_environments.hpp"

#include <gtest/gtest.h>

#include "spec/codec.hpp"
#include "testing/contains.hpp"

namespace muster::spec {
namespace {

using testing::contains;

Result<EvaluationEnvironments> read_text(const std::string& text) {
  return read(parse_document(text, "here").value(), static_cast<const EvaluationEnvironments*>(nullptr));
}

TEST(EvaluationEnvironments, AreReadByMustersNamesAndByGuide0s) {
  const auto found = read_text(
      "[{type: tool, data: a.jsonl, max_episode_length: 4, timeout: 2},\n"
      " {env_type: math, mode: client, remote: false, server_address: null, dataset: null, custom_kwargs: {}, max_turns: 5,\n"
      "  reward_scale: 2, reward_clip: null, reward_bias: -1}]");
  ASSERT_TRUE(found) << found.error().what;
  ASSERT_EQ(found->list.size(), 2u);
  EXPECT_EQ(found->list[0].type, EnvironmentKind::tool);
  EXPECT_EQ(found->list[0].data, "a.jsonl");
  EXPECT_EQ(found->list[1].max_episode_length, 5);
  EXPECT_EQ(found->list[1].reward_scale, 2);
  EXPECT_EQ(found->list[1].data, std::nullopt);
  EXPECT_EQ(read_text(write(*found))->list, found->list) << write(*found);
}

TEST(EvaluationEnvironments, ThatCannotBePlayedAreRefusedWithTheReason) {
  EXPECT_TRUE(contains(read_text("{type: math}").error().remedy, "a list of tables"));
  EXPECT_TRUE(contains(read_text("[{data: a}]").error().what, "without a type"));
  EXPECT_TRUE(contains(read_text("[{type: chess}]").error().what, "whose type is \"chess\""));
  EXPECT_TRUE(contains(read_text("[{type: math, rounds: 0}]").error().what, "rounds is 0"));
  EXPECT_TRUE(contains(read_text("[{type: math, server_address: 'a:1'}]").error().what, "server_address is"));
  EXPECT_TRUE(contains(read_text("[{type: math, problems: [a]}]").error().remedy, "write them as JSON lines"));
  EXPECT_TRUE(contains(read_text("[{type: math, colour: red}]").error().what, "\"colour\""));
}

TEST(EvaluationEnvironments, HaveColumnsByTheirTypesAndPlaces) {
  using enum EnvironmentKind;
  const std::vector<EnvironmentKind> kinds{math, code, math};
  EXPECT_EQ(metric_name(kinds, 0), "eval_math");
  EXPECT_EQ(metric_name(kinds, 1), "eval_code");
  EXPECT_EQ(metric_name(kinds, 2), "eval_math_2");
}

}  // namespace
}  // namespace muster::spec
