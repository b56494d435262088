#include "sweep/sweep_document.hpp"

#include <gtest/gtest.h>

#include "sweep/sweep_spec.hpp"

namespace muster::sweep {
namespace {

constexpr std::string_view own =
    "metric: loss  # a comment\ngoal: minimize\nparameters:\n  training:\n    rate: {distribution: uniform, min: 0, "
    "max: 1}\n"
    "    optimizer: [adamw, sgd]\nlimits: {trials: 5}\ncommand: [sh, -c, \"echo: 'a' # b\", '8', \"\"]\n";

SweepSpec changed(std::string_view text, const std::vector<std::string>& words) {
  const auto made = with_words(text, "a file", words);
  EXPECT_TRUE(made) << made.error().what;
  const auto spec = read_sweep_spec(*made, "the changed file");
  EXPECT_TRUE(spec) << spec.error().what << "\n" << *made;
  return *spec;
}

TEST(SweepDocument, StaysAsItIsWithoutWords) { EXPECT_EQ(*with_words(own, "a file", {}), own); }

TEST(SweepDocument, KeepsWhatNoWordIsAbout) {
  const SweepSpec spec = changed(own, {"seed=3"});
  EXPECT_EQ(spec.seed, 3u);
  EXPECT_EQ(spec.metric, "loss");
  EXPECT_EQ(spec.command, (std::vector<std::string>{"sh", "-c", "echo: 'a' # b", "8", ""}));
  EXPECT_EQ(spec.space.parameters.size(), 2u);
  EXPECT_EQ(spec.limits.trials, 5);
}

TEST(SweepDocument, TakesOwnKeysAndParametersFromWords) {
  const SweepSpec spec =
      changed(own, {"limits.trials=50", "limits.seconds=2h", "training.rate=0.5", "parameters.training.depth=2,4",
                    "width={distribution: uniform, min: 1, max: 2}"});
  EXPECT_EQ(spec.limits.trials, 50);
  EXPECT_EQ(spec.limits.seconds, 7200);
  ASSERT_EQ(spec.space.parameters.size(), 4u);
  EXPECT_EQ(spec.space.parameters[0].path, "training.optimizer");
  EXPECT_EQ(spec.space.parameters[1].path, "training.rate");
  EXPECT_EQ(spec.space.parameters[1].distribution, Distribution::constant);
  EXPECT_EQ(spec.space.parameters[2].values.size(), 2u);
  EXPECT_EQ(spec.space.parameters[3].max, 2);
}

TEST(SweepDocument, ChangesAFileOfWandbToo) {
  const SweepSpec spec = changed(
      "metric: {name: loss, goal: minimize}\nmethod: random\nprogram: t.py\n"
      "parameters: {x: {min: 0.0, max: 1.0}}\n",
      {"x=0.5", "y=a,b", "metric.goal=maximize"});
  EXPECT_EQ(spec.goal, Goal::maximize);
  ASSERT_EQ(spec.space.parameters.size(), 2u);
  EXPECT_FALSE(varies(spec.space.parameters[0]));
  EXPECT_TRUE(varies(spec.space.parameters[1]));
}

TEST(SweepDocument, RefusesAWordThatIsNone) {
  for (const char* word : {"limits", "=3", "limits.trials="})
    EXPECT_FALSE(with_words(own, "a file", std::vector<std::string>{word})) << word;
}

TEST(SweepDocument, FindsEveryDifferenceButLimits) {
  const auto same =
      differences(own, *with_words(own, "a file", std::vector<std::string>{"limits.trials=9", "limits.seconds=5"}));
  ASSERT_TRUE(same);
  EXPECT_TRUE(same->empty());
  const auto lines =
      differences(own, *with_words(own, "a file", std::vector<std::string>{"metric=accuracy", "seed=2"}));
  ASSERT_TRUE(lines);
  EXPECT_EQ(*lines, (std::vector<std::string>{"metric is loss, not accuracy", "seed is not there, and is 2 now"}));
}

}  // namespace
}  // namespace muster::sweep
