#include "spec/reward_spec.hpp"

#include <gtest/gtest.h>

#include "spec/resolve.hpp"

namespace muster::spec {
namespace {

Result<ResolvedSpec> resolve_settings(const std::vector<std::string>& settings) {
  Sources sources;
  for (const std::string& setting : settings) sources.overrides.push_back(parse_override(setting).value());
  return resolve(Schema(), sources);
}

std::string wrong(const std::vector<std::string>& settings) {
  const auto resolved = resolve_settings(settings);
  EXPECT_FALSE(resolved);
  return resolved ? "" : to_string(resolved.error());
}

TEST(RewardSpec, BecomesOptionsOnceFunctionsAreNamed) {
  const auto without = resolve_settings({});
  ASSERT_TRUE(without);
  EXPECT_EQ(without->spec.reward_options(), std::nullopt);
  const auto resolved = resolve_settings({"reward.functions=math,program", "reward.weights=[1, 0.5]", "reward.program=python3 a.py --b c,d",
                                          "data_collection.reward_batch_size=8", "reward_scale=2", "reward_clip=3", "reward_bias=-1"});
  ASSERT_TRUE(resolved) << to_string(resolved.error());
  RewardOptions expected{.functions = {RewardFunction::math, RewardFunction::program}, .weights = {1, 0.5}};
  expected.program = {"python3 a.py --b c,d"};
  expected.program_batch = 8;
  expected.scale = 2, expected.clip = 3, expected.bias = -1;
  EXPECT_EQ(resolved->spec.reward_options(), expected);
}

TEST(RewardSpec, TakesAProgramWordByWord) {
  const auto resolved = resolve_settings({"reward.functions=program", R"(reward.program=["python3", "a b.py"])"});
  ASSERT_TRUE(resolved) << to_string(resolved.error());
  EXPECT_EQ(resolved->spec.reward_options()->program, (std::vector<std::string>{"python3", "a b.py"}));
}

TEST(RewardSpec, RefusesWhatContradictsItselfAndSaysWhatToDo) {
  const std::string exact = "reward.functions=exact";
  EXPECT_NE(wrong({exact, "reward.weights=[1,2]"}).find("has 2 weights, and reward.functions 1 functions"), std::string::npos);
  EXPECT_NE(wrong({exact, "reward.weights=[0]"}).find("are all 0"), std::string::npos);
  EXPECT_NE(wrong({"reward.functions=exact,length,exact"}).find("names exact twice"), std::string::npos);
  EXPECT_NE(wrong({"reward.functions=format"}).find("reward.format is not set"), std::string::npos);
  EXPECT_NE(wrong({"reward.functions=program"}).find("reward.program is not set"), std::string::npos);
  EXPECT_NE(wrong({exact, "reward.format=a"}).find("add format to reward.functions"), std::string::npos);
  EXPECT_NE(wrong({exact, "reward.program_seconds=3"}).find("add program to reward.functions"), std::string::npos);
  EXPECT_NE(wrong({"reward.functions=format", "reward.format=(a"}).find("missing closing parenthesis"), std::string::npos);
  EXPECT_NE(wrong({"reward.functions=guess"}).find("exact, contains"), std::string::npos);
  EXPECT_NE(wrong({exact, "reward.clip=-1"}).find("reward.clip"), std::string::npos);
}

}  // namespace
}  // namespace muster::spec
