#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sweep/sweep_spec.hpp"

namespace muster::sweep {
namespace {

SweepSpec read(std::string_view text) {
  auto spec = read_sweep_spec(text, "sweep.yaml");
  if (!spec) ADD_FAILURE() << to_string(spec.error());
  return spec ? *spec : SweepSpec{};
}

// What is said about a text that is refused.
std::string refused(std::string_view text) {
  const auto spec = read_sweep_spec(text, "sweep.yaml");
  if (spec) return "it was read";
  EXPECT_EQ(spec.error().kind, Error::Kind::bad_input);
  return to_string(spec.error());
}

std::string with_parameter(std::string_view parameter) {
  return "metric: loss\ngoal: minimize\nparameters:\n  p: " + std::string(parameter) + "\n";
}

std::string wandb_with(std::string_view parameter) {
  return "method: random\nmetric: {name: loss}\nparameters:\n  p: " + std::string(parameter) + "\n";
}

bool says(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

#define EXPECT_SAYS(text, part) EXPECT_TRUE(says(text, part)) << text

TEST(SweepFile, HoldsEverythingThatAUserCanSay) {
  const SweepSpec spec = read(R"(
metric: eval_loss
goal: minimize
method: bayes
seed: 12
parameters:
  training:
    learning_rate: {distribution: log_normal, min: 1.0e-5, max: 1.0e-1, mean: 1.0e-3, scale: 0.25}
    batch_size: {distribution: uniform_pow2, min: 8, max: 64, scale: time}
    max_steps: 100
  training.warmup_steps: {distribution: int_uniform, min: 0, max: 10}
  training.optimizer: [adamw, sgd]
  model.dropout: {distribution: uniform, min: 0, max: 0.5, step: 0.1}
  algos.gamma: {distribution: logit_normal, min: 0.8, max: 0.999}
  data.shuffle: {distribution: categorical, values: [true, false]}
limits: {trials: 50, seconds: 2h, trial_seconds: 90, consecutive_failures: 3}
early_stop: {method: hyperband, min_steps: 10, max_steps: 200, eta: 3}
bayes: {first_trials: 6, cost_weight: 0.5}
command: [python, train.py, "${args}"]
)");
  EXPECT_EQ(spec.metric, "eval_loss");
  EXPECT_EQ(spec.goal, Goal::minimize);
  EXPECT_EQ(spec.method, Method::bayes);
  EXPECT_EQ(spec.seed, 12u);
  ASSERT_EQ(spec.space.parameters.size(), 8u);
  const Parameter& rate = spec.space.parameters[0];
  EXPECT_EQ(rate.path, "training.learning_rate");
  EXPECT_NEAR(rate.centre, 0, 1e-12);
  EXPECT_EQ(rate.scale, 0.25);
  EXPECT_NEAR(spec.space.parameters[1].scale, 1.0 / 3, 1e-12);  // three doublings
  EXPECT_EQ(spec.space.parameters[2].distribution, Distribution::constant);
  EXPECT_EQ(spec.space.parameters[3].path, "training.warmup_steps");
  EXPECT_EQ(spec.space.parameters[3].scale, 0.5);
  EXPECT_EQ(spec.space.parameters[4].values, (std::vector<Value>{"adamw", "sgd"}));
  EXPECT_EQ(count_values(spec.space.parameters[5]), 6u);
  EXPECT_EQ(spec.space.parameters[7].values, (std::vector<Value>{true, false}));
  EXPECT_EQ(spec.limits.trials, 50);
  EXPECT_EQ(spec.limits.seconds, 7200);
  EXPECT_EQ(spec.limits.trial_seconds, 90);
  EXPECT_EQ(spec.limits.consecutive_failures, 3);
  EXPECT_EQ(spec.early_stop->rungs, (std::vector<std::int64_t>{10, 30, 90}));
  EXPECT_EQ(spec.early_stop->ladders, 3);
  EXPECT_EQ(spec.bayes.first_trials, 6);
  EXPECT_EQ(spec.command.back(), "${args}");
}

TEST(SweepFile, HasEveryProblemReportedAtOnce) {
  const std::string said = refused(R"(
goal: highest
method: annealing
sed: 4
parameters:
  a: {distribution: gaussian, min: 0, max: 1}
  b: {distribution: uniform, min: 3, max: 2}
  c: {distribution: uniform_pow2, min: 8, max: 100}
  d: {distribution: log_normal, min: 0, max: 1}
  e: {distribution: logit_normal, min: 0.5, max: 1}
  f: {distribution: int_uniform, min: 0.5, max: 3}
  g: {distribution: uniform, min: 0, max: 1, mean: 2}
  h: {min: 0, max: 1}
  i: {distribution: uniform, minimum: 0, max: 1}
  j: {value: 3, values: [3]}
  k: {values: [1, 2, 1]}
  l: {distribution: uniform, min: 0, max: 1, scale: time}
  m: {distribution: uniform, min: low, max: 1}
  n: []
limits: {trials: 0, hours: 3}
early_stop: {eta: 1}
command: [run, "${arguments}"]
)");
  for (const std::string_view part : {"metric is missing",
                                      "goal is \"highest\"",
                                      "method is \"annealing\"",
                                      "unknown key \"sed\"",
                                      "did you mean \"seed\"?",
                                      "a: distribution is \"gaussian\"",
                                      "uniform_pow2",
                                      "b: min is 3 and max is 2",
                                      "c: 100 is not a power of two",
                                      "the nearest are 64 and 128",
                                      "d: min is 0",
                                      "e: min is 0.5 and max is 1",
                                      "f: 0.5 is not a whole number",
                                      "g: mean is 2",
                                      "h: what it may be is not said",
                                      "i: unknown key \"minimum\"",
                                      "j: value and values",
                                      "k: the value 1 twice",
                                      "l: scale is time",
                                      "m: min is \"low\"",
                                      "n: no values",
                                      "trials is \"0\"",
                                      "unknown key \"hours\"",
                                      "eta is \"1\"",
                                      "${arguments}",
                                      "sweep.yaml:7:3"})
    EXPECT_SAYS(said, part);
}

TEST(SweepFile, TellsASectionFromAParameterByWhatItHolds) {
  // Settings may be called min and max: they hold tables then.
  const SweepSpec spec =
      read("metric: m\ngoal: maximize\nparameters:\n  reward: {min: {values: [1, 2]}, max: {value: 3}}\n");
  ASSERT_EQ(spec.space.parameters.size(), 2u);
  EXPECT_EQ(spec.space.parameters[0].path, "reward.min");
  EXPECT_EQ(spec.space.parameters[1].path, "reward.max");
}

TEST(SweepFile, RefusesAParameterThatIsNamedTwice) {
  EXPECT_SAYS(refused("metric: m\ngoal: maximize\nparameters:\n  a: {b: [1, 2]}\n  a.b: [3]\n"), "a.b a second time");
}

TEST(SweepFile, RefusesAGridOverNumbersWithoutEnd) {
  EXPECT_SAYS(
      refused("metric: m\ngoal: maximize\nmethod: grid\nparameters: {a: {distribution: uniform, min: 0, max: 1}}\n"),
      "method is grid, and a can be any number");
  EXPECT_EQ(count_points(read("metric: m\ngoal: maximize\nmethod: grid\nparameters: {a: {distribution: uniform, min: "
                              "0, max: 1, step: 0.25}, b: [x, y]}\n")
                             .space),
            10u);
}

TEST(SweepFile, RefusesBoundsThatNoSearchCouldUse) {
  EXPECT_SAYS(refused(with_parameter("{distribution: uniform, min: -1e308, max: 1e308}")), "so far apart");
  EXPECT_SAYS(refused(with_parameter("{distribution: int_uniform, min: 0, max: 9007199254740992}")), "2^48 at most");
  EXPECT_SAYS(refused(wandb_with("{distribution: log_uniform, min: 1.0, max: 1000.0}")), "so far apart");
}

TEST(SweepFile, RefusesWhatIsNoTableAndWhatHasNoParameters) {
  EXPECT_SAYS(refused("- 1\n"), "the file is a list");
  EXPECT_SAYS(refused("metric: m\ngoal: maximize\n"), "no parameters");
  EXPECT_SAYS(refused("metric: m\nparameters: {a: [1]}\n"), "goal is missing");
  EXPECT_SAYS(refused("a: [\n"), "not valid YAML");
}

TEST(SweepFile, KeepsTheKindOfEveryValue) {
  const SweepSpec spec = read(with_parameter("[1, 1.5, \"1\", true, adamw]"));
  EXPECT_EQ(spec.space.parameters[0].values, (std::vector<Value>{std::int64_t{1}, 1.5, "1", true, "adamw"}));
  EXPECT_FALSE(is_ordered(spec.space.parameters[0]));
  EXPECT_TRUE(is_ordered(read(with_parameter("[1, 2.5]")).space.parameters[0]));
}

TEST(WandbFile, HoldsWhatWandbMeansByIt) {
  const SweepSpec spec = read(R"(
program: train.py
method: bayes
metric: {name: val_loss, goal: minimize}
parameters:
  learning_rate: {distribution: log_uniform_values, min: 0.0001, max: 0.1}
  decay: {distribution: log_uniform, min: -4.0, max: 0.0}
  batch_size: {min: 16, max: 256}
  dropout: {min: 0.0, max: 0.5}
  width: {distribution: q_uniform, min: 64, max: 512, q: 64}
  heads: {distribution: q_log_uniform_values, min: 2, max: 16, q: 2}
  optimizer: {values: [adam, sgd]}
  epochs: {value: 10}
  layers:
    parameters:
      depth: {distribution: int_uniform, min: 2, max: 8}
early_terminate: {type: hyperband, min_iter: 3, eta: 2}
command: ["${env}", "${interpreter}", "${program}", "${args}"]
run_cap: 40
)");
  EXPECT_EQ(spec.metric, "val_loss");
  EXPECT_EQ(spec.method, Method::bayes);
  EXPECT_EQ(spec.program, "train.py");
  EXPECT_EQ(spec.limits.trials, 40);
  const auto& parameters = spec.space.parameters;
  ASSERT_EQ(parameters.size(), 9u);
  EXPECT_EQ(parameters[0].distribution, Distribution::log_uniform);
  EXPECT_EQ(parameters[0].min, 0.0001);
  EXPECT_EQ(parameters[1].distribution, Distribution::log_uniform);
  EXPECT_NEAR(parameters[1].min, std::exp(-4), 1e-15);
  EXPECT_EQ(parameters[1].max, 1);
  EXPECT_EQ(parameters[2].distribution, Distribution::int_uniform);
  EXPECT_EQ(parameters[3].distribution, Distribution::uniform);
  EXPECT_EQ(count_values(parameters[4]), 8u);
  EXPECT_EQ(count_values(parameters[5]), 8u);
  EXPECT_EQ(parameters[6].values, (std::vector<Value>{"adam", "sgd"}));
  EXPECT_EQ(parameters[7].values, (std::vector<Value>{std::int64_t{10}}));
  EXPECT_EQ(parameters[8].path, "layers.depth");
  ASSERT_GE(spec.early_stop->rungs.size(), 4u);
  EXPECT_EQ(spec.early_stop->rungs[3], 24);
  EXPECT_EQ(spec.early_stop->eta, 2);
}

TEST(WandbFile, DrawsRoundedNumbersAsWandbDoes) {
  // round(U(0, 1) / 0.5) × 0.5: the middle one twice as often as each end.
  const SweepSpec spec = read(wandb_with("{distribution: q_uniform, min: 0, max: 1, q: 0.5}"));
  std::map<double, int> seen;
  for (int i = 0; i < 400; ++i)
    ++seen[*number_of(from_unit(spec.space.parameters[0], draw_unit(spec.space.parameters[0], (i + 0.5) / 400)))];
  EXPECT_EQ(seen, (std::map<double, int>{{0, 100}, {0.5, 200}, {1, 100}}));
}

TEST(WandbFile, HasTheCommandAndTheGoalThatWandbTakesWhenNothingIsSaid) {
  const SweepSpec spec = read("program: train.py\n" + wandb_with("{values: [1]}"));
  EXPECT_EQ(spec.goal, Goal::minimize);
  EXPECT_EQ(spec.command, (std::vector<std::string>{"${env}", "${interpreter}", "${program}", "${args}"}));
}

TEST(WandbFile, ReadsBothFormsOfHyperband) {
  const SweepSpec spec = read(wandb_with("{values: [1]}") + "early_terminate: {type: hyperband, max_iter: 27, s: 2}\n");
  EXPECT_EQ(spec.early_stop->rungs, (std::vector<std::int64_t>{3, 9}));
  EXPECT_SAYS(refused(wandb_with("{values: [1]}") + "early_terminate: {type: hyperband, max_iter: 27}\n"),
              "either min_iter, or max_iter and s");
  EXPECT_SAYS(refused(wandb_with("{values: [1]}") + "early_terminate: {type: envelope}\n"), "type is \"envelope\"");
  EXPECT_SAYS(refused(wandb_with("{values: [1]}") + "early_terminate: {type: hyperband, min_iter: 3, strict: true}\n"),
              "unknown key \"strict\"");
}

TEST(WandbFile, RefusesByNameWhatItCannotMeanExactly) {
  for (const std::string distribution :
       {"normal", "log_normal", "q_normal", "q_log_normal", "beta", "q_beta", "inv_log_uniform",
        "inv_log_uniform_values", "q_log_uniform", "categorical_w_probabilities"}) {
    const std::string said = refused(wandb_with("{distribution: " + distribution + ", min: 1, max: 2}"));
    EXPECT_SAYS(said, "p: distribution is \"" + distribution + "\"");
    EXPECT_SAYS(said, "log_uniform_values");
  }
  EXPECT_SAYS(refused(wandb_with("{distribution: q_uniform, min: 0, max: 1, q: 0.3}")),
              "1 is not a multiple of the step 0.3");
  EXPECT_SAYS(refused(wandb_with("{values: [1], probabilities: [1]}")), "p: probabilities is not accepted");
  EXPECT_SAYS(refused(wandb_with("{mu: 0, sigma: 1}")), "p: mu is not accepted");
  EXPECT_SAYS(refused(wandb_with("{value: 1, min: 0}")), "p: min beside value");
  EXPECT_SAYS(refused(wandb_with("3")), "p is \"3\"");
}

TEST(WandbFile, RefusesEveryOtherKeyByName) {
  const std::string said =
      refused(wandb_with("{values: [1]}") + "project: x\nentity: y\ncontroller: {type: local}\nname: n\n");
  for (const std::string_view key : {"project", "entity", "controller", "name"})
    EXPECT_SAYS(said, "unknown key \"" + std::string(key) + "\"");
  EXPECT_SAYS(refused("method: random\nmetric: {name: m, target: 0.9}\nparameters: {p: {value: 1}}\n"),
              "unknown key \"target\"");
  EXPECT_SAYS(refused("metric: {name: m}\nparameters: {p: {value: 1}}\n"), "method is missing");
}

}  // namespace
}  // namespace muster::sweep
