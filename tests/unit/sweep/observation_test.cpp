#include "sweep/observation.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "sweep/best_trials.hpp"
#include "sweep/sweep_end.hpp"

namespace muster::sweep {
namespace {

Observation one(std::string trial, std::optional<double> score, double cost = 1) {
  return {std::move(trial), {{"training.learning_rate", 0.1}}, score, cost};
}

TEST(Observations, ComeBackFromTheirLinesBitForBit) {
  std::vector<Observation> written{one("s.r.0", 0.1 + 0.2, 1e-3), one("s.r.1", std::nullopt, 7)};
  written[0].settings = {{"a", 5e-324}, {"b", std::int64_t{-3}}, {"c", true}, {"d", "wörd \"x\"\n"}, {"e", 8.0}};
  written[0].stopped_early = true;
  written[1].reason = "out of memory";
  const std::string text = to_line(written[0]) + to_line(written[1]);
  EXPECT_EQ(read_observations(text, "observations.jsonl").value(), written);
}

TEST(Observations, WithAScoreThatIsNoNumberAreFailures) {
  const std::string text = to_line(one("a", std::nan(""))) + to_line(one("b", HUGE_VAL));
  EXPECT_EQ(read_observations(text, "o").value(), (std::vector{one("a", std::nullopt), one("b", std::nullopt)}));
}

TEST(Observations, AreReadUpToALineThatWasCutOff) {
  const std::string whole = to_line(one("s.r.0", 1)) + to_line(one("s.r.1", 2));
  for (std::size_t length = to_line(one("s.r.0", 1)).size(); length < whole.size(); ++length) {
    const auto read = read_observations(whole.substr(0, length), "o");
    ASSERT_TRUE(read) << length;
    // Only the newline missing: the line says everything.
    EXPECT_EQ(read->size(), length + 1 == whole.size() ? 2u : 1u) << length;
  }
}

TEST(Observations, NameTheLineThatIsNone) {
  const auto read =
      read_observations(to_line(one("s.r.0", 1)) + "{\"trial\": 3}\n" + to_line(one("s.r.1", 1)), "o.jsonl");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().what.find("o.jsonl:2"), std::string::npos) << read.error().what;
  for (const std::string line :
       {"{\"trial\": \"a\", \"parameters\": {}, \"failed\": false}\n",
        "{\"trial\": \"a\", \"parameters\": {\"x\": [1]}, \"score\": 1}\n",
        "{\"trial\": \"a\", \"parameters\": {}, \"score\": 1, \"cost_seconds\": -1}\n", "nonsense\n"})
    EXPECT_FALSE(read_observations(line, "o")) << line;
}

TEST(Observations, TakeTheLaterOfTwoLinesAboutATrial) {
  const auto read = read_observations(to_line(one("a", 1)) + to_line(one("b", 2)) + to_line(one("a", 3)), "o").value();
  EXPECT_EQ(read, (std::vector{one("a", 3), one("b", 2)}));
}

TEST(Observations, MayHoldFieldsOfLaterVersions) {
  EXPECT_TRUE(read_observations("{\"trial\": \"a\", \"parameters\": {}, \"score\": 1, \"gpu\": [1]}\n", "o"));
}

TEST(BestTrials, AreTheHighestOrTheLowestOfThoseThatSucceeded) {
  const std::vector<Observation> all{one("a", -1), one("b", std::nullopt), one("c", -3), one("d", -1, 0.5),
                                     one("e", 0)};
  const auto names = [](const std::vector<Observation>& trials) {
    std::string text;
    for (const Observation& trial : trials) text += trial.trial;
    return text;
  };
  EXPECT_EQ(names(best_trials(all, Goal::maximize, 9)), "edac");  // of equal ones the cheaper first
  EXPECT_EQ(names(best_trials(all, Goal::minimize, 2)), "cd");
}

TEST(BestTrials, AreExportedAsYamlAndAsOverrides) {
  const Settings settings{
      {"training.learning_rate", 1e-5}, {"model.path", "a, b"},    {"training.batch_size", std::int64_t{64}},
      {"training.fused", true},         {"training.name", "12"},   {"training.schedule", "cosine"},
      {"training.text", "[x"},          {"training.other", "null"}};
  EXPECT_EQ(
      yaml_patch(settings),
      "training:\n  learning_rate: 1e-05\n  batch_size: 64\n  fused: true\n  name: \"12\"\n  schedule: cosine\n  text: "
      "\"[x\"\n  other: \"null\"\nmodel:\n  path: \"a, b\"\n");
  EXPECT_EQ(override_list(settings),
            (std::vector<std::string>{"training.learning_rate=1e-05", "model.path=a, b", "training.batch_size=64",
                                      "training.fused=true", "training.name=12", "training.schedule=cosine",
                                      "training.text=\"[x\"", "training.other=\"null\""}));
  const auto patch = parse_document(yaml_patch(settings), "patch");
  EXPECT_TRUE(patch->find("training")->find("name")->quoted);
}

TEST(SweepEnd, ComesWithTheFirstLimitThatIsReached) {
  Limits limits{.trials = 3, .seconds = 10, .consecutive_failures = 2};
  const std::vector<Observation> two{one("a", 1), one("b", std::nullopt)};
  EXPECT_EQ(reason_to_end(limits, two, 0, 1), std::nullopt);
  EXPECT_EQ(reason_to_end(limits, two, 1, 1), "3 of 3 trials");
  EXPECT_EQ(reason_to_end(limits, two, 0, 10), "10 of 10 seconds");
  const std::vector<Observation> failing{one("a", std::nullopt), one("b", std::nullopt)};
  EXPECT_EQ(reason_to_end(limits, failing, 0, 1), "2 failures in a row");
  const Limits single{.trials = 1, .consecutive_failures = 1};
  EXPECT_EQ(reason_to_end(single, {}, 1, 1), "1 of 1 trial");
  EXPECT_EQ(reason_to_end({.consecutive_failures = 1}, std::span(failing).first(1), 0, 1), "1 failure in a row");
  const std::vector<Observation> mixed{one("a", std::nullopt), one("b", 1)};
  EXPECT_EQ(reason_to_end(limits, mixed, 0, 1), std::nullopt);
}

}  // namespace
}  // namespace muster::sweep
