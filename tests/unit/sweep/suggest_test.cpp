#include "sweep/search/suggest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sweep/search/bayes.hpp"
#include "sweep/search/evidence.hpp"
#include "sweep/trial_ledger.hpp"

namespace muster::sweep {
namespace {

SweepSpec two_numbers(Method method) {
  SweepSpec spec;
  spec.metric = "loss";
  spec.goal = Goal::minimize;
  spec.method = method;
  spec.seed = 7;
  spec.limits.trials = 40;
  spec.space.parameters.push_back({.path = "x", .min = -1, .max = 1});
  spec.space.parameters.push_back({.path = "y", .distribution = Distribution::log_uniform, .min = 1e-4, .max = 1});
  return spec;
}

SweepSpec small_grid(Method method) {
  SweepSpec spec;
  spec.method = method;
  spec.space.parameters.push_back(
      {.path = "a", .distribution = Distribution::categorical, .values = {Value("u"), Value("v"), Value("w")}});
  spec.space.parameters.push_back({.path = "b", .distribution = Distribution::int_uniform, .min = 1, .max = 4});
  spec.space.parameters.push_back({.path = "c", .distribution = Distribution::constant, .values = {Value(true)}});
  return spec;
}

double number(const Settings& settings, std::string_view path) { return number_of(*find(settings, path)).value(); }

double bowl(const Settings& settings) {
  const double x = number(settings, "x") - 0.3, y = std::log10(number(settings, "y")) + 2;
  return x * x + 0.2 * y * y;
}

Observation observed(std::size_t index, Settings settings, std::optional<double> score, double cost = 1) {
  return {"s.r." + std::to_string(index), std::move(settings), score, cost};
}

template <class Score>
std::vector<Observation> run(const SweepSpec& spec, std::size_t trials, Score score,
                             std::vector<Observation> done = {}) {
  while (done.size() < trials) {
    auto suggestion = suggest(spec, {done, {}});
    if (!suggestion) break;
    const auto result = score(suggestion->settings);
    done.push_back(observed(done.size(), std::move(suggestion->settings), result));
  }
  return done;
}

TEST(Suggestion, OfAGridIsEveryPointOnceAndThenNone) {
  for (const Method method : {Method::grid, Method::random, Method::bayes}) {
    const auto done = run(small_grid(method), 100, [](const Settings& s) { return number(s, "b"); });
    EXPECT_EQ(done.size(), 12u) << word(method);
    std::set<std::string> seen;
    for (const Observation& one : done) seen.insert(to_json(one.settings).dump());
    EXPECT_EQ(seen.size(), 12u) << word(method);
  }
}

TEST(Suggestion, OfAGridGoesThroughItInOrderAndFillsGaps) {
  const SweepSpec spec = small_grid(Method::grid);
  std::vector<Observation> done = run(spec, 5, [](const Settings&) { return 0.0; });
  EXPECT_EQ(done[1].settings, (Settings{{"a", "u"}, {"b", std::int64_t{2}}, {"c", true}}));
  const Settings lost = done[2].settings;
  done.erase(done.begin() + 2);
  EXPECT_EQ(suggest(spec, {done, {}})->settings, lost);
  EXPECT_NE(suggest(spec, {done, std::vector<Settings>{lost}})->settings, lost);
}

TEST(Suggestion, FollowsFromTheHistoryWhateverItsOrder) {
  for (const Method method : {Method::random, Method::bayes}) {
    const SweepSpec spec = two_numbers(method);
    std::vector<Observation> done = run(spec, 14, bowl);
    const std::vector<Settings> running{{{"x", 0.5}, {"y", 0.5}}, {{"x", -0.5}, {"y", 0.001}}};
    const auto first = suggest(spec, {done, running});
    std::ranges::reverse(done);
    const std::vector<Settings> turned{running[1], running[0]};
    EXPECT_EQ(suggest(spec, {done, turned})->settings, first->settings) << word(method);
  }
}

TEST(Suggestion, OfAResumedSweepIsThatOfTheUninterruptedOne) {
  for (const Method method : {Method::random, Method::bayes}) {
    const SweepSpec spec = two_numbers(method);
    const std::vector<Observation> whole = run(spec, 20, bowl);
    // What was written and read again.
    std::string text;
    for (std::size_t i = 0; i < 11; ++i) text += to_line(whole[i]);
    EXPECT_EQ(run(spec, 20, bowl, read_observations(text, "observations.jsonl").value()), whole) << word(method);
  }
}

TEST(Suggestion, DependsOnTheSeed) {
  for (const Method method : {Method::random, Method::bayes}) {
    SweepSpec spec = two_numbers(method);
    const auto first = run(spec, 8, bowl);
    spec.seed = 8;
    EXPECT_NE(run(spec, 8, bowl)[3].settings, first[3].settings);
  }
}

TEST(Suggestion, OfTheBayesianMethodBeginsAtTheCentre) {
  SweepSpec spec = two_numbers(Method::bayes);
  spec.space.parameters[1].centre = to_unit(spec.space.parameters[1], 0.003).value();
  const auto first = suggest(spec, {});
  EXPECT_EQ(number(first->settings, "x"), 0);
  EXPECT_NEAR(number(first->settings, "y"), 0.003, 1e-12);
}

TEST(Suggestion, ToMinimizeIsThatToMaximizeTheNegativeBitForBit) {
  for (const Method method : {Method::random, Method::bayes}) {
    SweepSpec spec = two_numbers(method);
    const auto least = run(spec, 25, bowl);
    spec.goal = Goal::maximize;
    const auto most = run(spec, 25, [](const Settings& s) { return -bowl(s); });
    for (std::size_t i = 0; i < 25; ++i) EXPECT_EQ(least[i].settings, most[i].settings) << i;
  }
}

TEST(Suggestion, ComesNearTheLeastOfABowl) {
  const auto done = run(two_numbers(Method::bayes), 30, bowl);
  double best = 1e9;
  for (const Observation& one : done) best = std::min(best, *one.score);
  EXPECT_LT(best, 1e-4);
}

TEST(Suggestion, IsNotDrawnToWhereTrialsFail) {
  // Low losses are promised towards x = 1, but all trials beyond x = 0.2 fail.
  const auto score = [](const Settings& s) -> std::optional<double> {
    if (number(s, "x") > 0.2) return std::nullopt;
    return -number(s, "x");
  };
  const auto done = run(two_numbers(Method::bayes), 40, score);
  const auto failures =
      std::count_if(done.begin() + 20, done.end(), [](const Observation& one) { return one.failed(); });
  EXPECT_LE(failures, 6);
  double best = 1e9;
  for (const Observation& one : done) best = std::min(best, one.score.value_or(1e9));
  EXPECT_LT(best, -0.17);
}

TEST(Suggestion, GoesOnWhenEverythingFails) {
  const auto done = run(two_numbers(Method::bayes), 15, [](const Settings&) { return std::optional<double>(); });
  std::set<double> seen;
  for (const Observation& one : done) seen.insert(number(one.settings, "x"));
  EXPECT_EQ(seen.size(), 15u);
}

TEST(Suggestion, GoesOnWhenAllScoresAreEqualOrEnormous) {
  for (const double size : {0.0, 1e300}) {
    const auto done = run(two_numbers(Method::bayes), 15, [size](const Settings& s) { return size * number(s, "x"); });
    EXPECT_EQ(done.size(), 15u);
    for (const Observation& one : done) EXPECT_TRUE(std::isfinite(number(one.settings, "y")));
  }
}

TEST(Suggestion, ForTrialsSideBySideIsNeverTheSame) {
  const SweepSpec spec = two_numbers(Method::bayes);
  const auto done = run(spec, 12, bowl);
  std::vector<Settings> running;
  for (int i = 0; i < 6; ++i) running.push_back(suggest(spec, {done, running})->settings);
  for (std::size_t i = 0; i < running.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const double apart = std::hypot(number(running[i], "x") - number(running[j], "x"),
                                      std::log10(number(running[i], "y") / number(running[j], "y")) / 2);
      EXPECT_GT(apart, 0.01) << i << " and " << j;
    }
}

TEST(Suggestion, IsNotExpectedToTakeLongerThanATrialMay) {
  SweepSpec spec = two_numbers(Method::bayes);
  spec.limits.trial_seconds = 10;
  // The loss falls with x, and the cost rises: 10 seconds are at x = 0.
  std::vector<Observation> done;
  int over = 0;
  for (std::size_t i = 0; i < 30; ++i) {
    Settings settings = suggest(spec, {done, {}})->settings;
    const double x = number(settings, "x"), cost = 10 * std::exp(3 * x);
    if (i >= 12 && cost > 11) ++over;
    done.push_back(observed(i, std::move(settings), -x, cost));
  }
  EXPECT_EQ(over, 0);
  double best = 1e9;
  for (const Observation& one : done)
    if (one.cost_seconds <= 11) best = std::min(best, *one.score);
  EXPECT_LT(best, -0.01 + 0.05);
}

TEST(Suggestion, PrefersCheapTrialsWhileSecondsAreLeft) {
  SweepSpec spec = two_numbers(Method::bayes);
  const auto spent = [&](double weight) {
    spec.bayes.cost_weight = weight;
    std::vector<Observation> done;
    double sum = 0;
    for (std::size_t i = 0; i < 25; ++i) {
      Settings settings = suggest(spec, {done, {}})->settings;
      const double cost = std::exp(3 * number(settings, "x"));
      sum += cost;
      done.push_back(observed(i, settings, std::sin(9 * number(settings, "x")) + bowl(settings), cost));
    }
    return sum;
  };
  EXPECT_LT(spent(1), 0.8 * spent(0));
}

TEST(Suggestion, FindsTheBestWordAndTheBestNumberOfAList) {
  SweepSpec spec = two_numbers(Method::bayes);
  spec.space.parameters.push_back({.path = "kind",
                                   .distribution = Distribution::categorical,
                                   .values = {Value("a"), Value("b"), Value("c"), Value("d")}});
  spec.space.parameters.push_back(
      {.path = "size",
       .distribution = Distribution::values,
       .values = {Value(std::int64_t{8}), Value(std::int64_t{16}), Value(std::int64_t{32})}});
  const auto score = [](const Settings& s) {
    const bool right = *find(s, "kind") == Value("c");
    return bowl(s) + (right ? 0 : 0.5) + std::abs(number(s, "size") - 16) / 16;
  };
  const auto done = run(spec, 40, score);
  double best = 1e9;
  for (const Observation& one : done) best = std::min(best, *one.score);
  EXPECT_LT(best, 0.01);
}

TEST(Suggestion, PassesOverObservationsOfAnotherSpace) {
  const SweepSpec spec = two_numbers(Method::bayes);
  auto done = run(spec, 10, bowl);
  const auto suggestion = suggest(spec, {done, {}});
  done.push_back(observed(90, {{"x", 44.0}, {"y", 0.5}}, -1000));
  done.push_back(observed(91, {{"z", 0.1}}, -1000));
  EXPECT_EQ(suggest(spec, {done, {}})->settings, suggestion->settings);
}

TEST(Suggestion, EndsWhereHardlyAnyNumberLiesBetweenTheBounds) {
  for (const Method method : {Method::random, Method::bayes}) {
    SweepSpec spec;
    spec.method = method;
    spec.space.parameters.push_back({.path = "x", .min = 1, .max = std::nextafter(1.0, 2.0)});
    EXPECT_EQ(run(spec, 9, [](const Settings& s) { return number(s, "x"); }).size(), 2u);
  }
}

TEST(Evidence, KeepsTheBestOfVeryManyTrialsAndSomeOfTheOthers) {
  const SweepSpec spec = two_numbers(Method::bayes);
  std::vector<Observation> done;
  for (int i = 0; i < 2000; ++i)
    done.push_back(observed(static_cast<std::size_t>(i), {{"x", i / 2000.0}, {"y", 0.1}}, i, 2));
  const Evidence evidence = gather(spec.space, spec.goal, {done, {}});
  EXPECT_EQ(evidence.begun, 2000u);
  EXPECT_EQ(evidence.seconds, 4000);
  ASSERT_EQ(evidence.finished.size(), 300u);
  EXPECT_EQ(evidence.finished[0].score, 0);
  EXPECT_EQ(evidence.finished[149].score, -149);
  EXPECT_LT(evidence.finished[299].score, -1900);
}

TEST(Evidence, HasAFrontOfTrialsThatAreBestForTheirCost) {
  const SweepSpec spec = two_numbers(Method::bayes);
  std::vector<Observation> done;
  const auto add = [&](double x, std::optional<double> loss, double cost) {
    done.push_back(observed(done.size(), {{"x", x}, {"y", 0.1}}, loss, cost));
  };
  add(0.1, 3, 1);
  add(0.2, 2, 5);
  add(0.3, 2.5, 6);  // beaten
  add(0.4, 1, 9);
  add(0.5, 1, 9);  // equal to the last: one of them stays
  add(0.6, std::nullopt, 0.01);
  const Evidence evidence = gather(spec.space, spec.goal, {done, {}});
  std::vector<double> costs;
  for (const Trial* trial : pareto(evidence)) costs.push_back(trial->cost);
  EXPECT_EQ(costs, (std::vector<double>{1, 5, 9}));
}

TEST(Evidence, ShapesScoresWithoutChangingTheirOrder) {
  const SweepSpec spec = two_numbers(Method::bayes);
  std::vector<Observation> done;
  for (const double loss : {1e200, 3.0, 2.0, 100.0, 1.0, 1.5, 1e7})
    done.push_back(observed(done.size(), {{"x", 0.0}, {"y", 0.1}}, loss));
  const auto shaped = shaped_scores(gather(spec.space, spec.goal, {done, {}}));  // best first
  EXPECT_TRUE(std::ranges::is_sorted(shaped, std::ranges::greater{}));
  for (const double score : shaped) EXPECT_LT(std::abs(score), 10);
}

}  // namespace
}  // namespace muster::sweep
