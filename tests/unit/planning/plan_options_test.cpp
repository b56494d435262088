#include "planning/plan_options.hpp"

#include <gtest/gtest.h>

#include <set>

#include "spec/alias.hpp"

namespace muster::planning {
namespace {

using Given = PlanCommandLine::Given;

Result<PlanOptions> read(const std::vector<Given>& given) { return read_plan_options(given); }

TEST(PlanOptions, AreReadFromWordsIntoTheirMembers) {
  const auto options = read({{"", {"folder"}},
                             {"--train", {}},
                             {"--lora", {"16"}},
                             {"--planner", {"compat"}},
                             {"--max-memory", {"0=1GB"}},
                             {"--seq-len", {"512"}},
                             {"--gpu-ids", {"0", "2"}}});
  ASSERT_TRUE(options) << to_string(options.error());
  EXPECT_EQ(options->configuration.settings, std::vector<std::string>{"folder"});
  EXPECT_TRUE(options->train && !options->infer);
  EXPECT_EQ(options->adapter_rank, 16);
  EXPECT_EQ(options->planner, "compat");
  EXPECT_EQ(options->max_memory, "0=1GB");
  EXPECT_EQ(options->values.at("--seq-len"), "512");
  EXPECT_EQ(options->configuration.short_values.at("--gpu-ids"), (std::vector<std::string>{"0", "2"}));
}

TEST(PlanOptions, LeaveWhichHostIsAskedToTheCaller) { EXPECT_TRUE(read({{"--gpus-from", {"gpus.yaml"}}})); }

TEST(PlanOptions, RefuseWhatIsNoOption) {
  const auto options = read({{"--trian", {}}});
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().kind, Error::Kind::bad_input);
  EXPECT_EQ(options.error().what, "--trian is not an option of a plan");
}

TEST(PlanOptions, RefuseANumberThatIsNone) {
  const auto options = read({{"--lora", {"many"}}});
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().what, "--lora is \"many\"");
}

TEST(PlanOptions, RefuseTwoValuesForOne) {
  EXPECT_EQ(read({{"--batch", {"1", "2"}}}).error().what, "--batch has 2 values");
  EXPECT_EQ(read({{"--params", {}}}).error().what, "--params has 0 values");
}

TEST(PlanOptions, AreNamedOnceEach) {
  std::set<std::string_view> names;
  std::size_t count = 0;
  const auto add = [&](const auto& list) {
    for (const auto& entry : list) names.insert(entry.option), ++count;
  };
  add(plan_options());
  add(plan_settings());
  add(spec::short_options());
  EXPECT_EQ(names.size(), count);
}

}  // namespace
}  // namespace muster::planning
