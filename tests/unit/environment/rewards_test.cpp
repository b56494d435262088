// What answers earn, against the guide's table.
#include <gtest/gtest.h>

#include <fstream>

#include "environment/argument_score.hpp"
#include "environment/calculator.hpp"
#include "environment/environment.hpp"
#include "environment/written_number.hpp"

namespace muster::environment {
namespace {

spec::EnvironmentOptions options_of(spec::EnvironmentKind kind) {
  spec::EnvironmentOptions options;
  options.kind = kind;
  if (std::ifstream("/usr/bin/python3")) options.code_python = "/usr/bin/python3";
  return options;
}

// An environment with one episode of this row.
struct Played {
  Played(spec::EnvironmentOptions options, const std::string& row, std::uint64_t seed = 0) {
    auto made = make_environment(options);
    if (!made) {
      fault = to_string(made.error());
      return;
    }
    environment = std::move(*made);
    auto begun = environment->reset(row, seed);
    if (begun)
      session = std::move(*begun);
    else
      fault = to_string(begun.error());
  }
  Step answer(const std::string& text) { return session->step(text); }

  std::unique_ptr<Environment> environment;
  std::unique_ptr<Session> session;
  std::string fault;
};

TEST(MathEnvironment, GivesOneForTheRightNumberAndTakesForNone) {
  const std::string row = R"({"question": "What is 6 times 7?", "answer": "6 * 7 = <<6*7=42>>42\n#### 42"})";
  const std::vector<std::pair<std::string, double>> table{
      {"The answer is 42", 1},     {"42", 1},          {"6 * 7 = 42", 1},      {"42.00005", 1}, {"42.0002", 0},
      {"The answer is 41.", 0},    {"No idea", -0.3},  {"", -0.3},             {"#### 42\nReally", 1},
      {"\\boxed{42} of course", 1}, {"42\nor 41", 0},   {"<think>41</think>42", 1}, {"x1 is it", -0.3}};
  for (const auto& [text, reward] : table) {
    Played episode(options_of(spec::EnvironmentKind::math), row);
    ASSERT_TRUE(episode.session) << episode.fault;
    EXPECT_EQ(episode.session->messages(), (std::vector<Message>{{"user", "What is 6 times 7?"}}));
    const Step step = episode.answer(text);
    EXPECT_TRUE(step.done);
    EXPECT_DOUBLE_EQ(*step.reward, reward) << text;
  }
}

TEST(MathEnvironment, RewardsStepsOnlyWhereAskedTo) {
  const std::string row = R"({"prompt": "1 + 2 + 3?", "answer": 6})", steps = "1 + 2 = 3\n3 + 3 = 6\nThe answer is 6";
  spec::EnvironmentOptions options = options_of(spec::EnvironmentKind::math);
  EXPECT_DOUBLE_EQ(*Played(options, row).answer(steps).reward, 1);
  options.steps_count = true;
  EXPECT_DOUBLE_EQ(*Played(options, row).answer(steps).reward, 1.2);
  EXPECT_DOUBLE_EQ(*Played(options, row).answer("6").reward, 1);
  EXPECT_DOUBLE_EQ(*Played(options, row).answer("a = b\nc = d").reward, -0.3);
}

TEST(MathEnvironment, RefusesRowsThatHaveNoNumberToCompareWith) {
  EXPECT_NE(Played(options_of(spec::EnvironmentKind::math), R"({"prompt": "?"})").fault.find("no right answer"), std::string::npos);
  EXPECT_NE(Played(options_of(spec::EnvironmentKind::math), R"({"prompt": "?", "answer": "blue"})").fault.find("no number"),
            std::string::npos);
  EXPECT_NE(Played(options_of(spec::EnvironmentKind::math), R"({"answer": "1"})").fault.find("\"prompt\""), std::string::npos);
}

TEST(WrittenNumber, IsReadWithSignsSeparatorsExponentsAndFractions) {
  const std::vector<std::pair<std::string, double>> table{{"-3", -3},        {"$1,234.50", 1234.5}, {"5-3", 3},   {"costs -$5", -5},
                                                          {"1e3", 1000},     {"3/4", 0.75},         {".5", 0.5},  {"1,2", 2},
                                                          {"(2) - 7", 7},    {"2.5.", 2.5},         {"1,234,567", 1234567}};
  for (const auto& [text, value] : table) EXPECT_EQ(last_written_number(text), std::optional(value)) << text;
  EXPECT_EQ(last_written_number("x2 and nothing"), std::nullopt);
}

class CodeEpisodes : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto made = make_environment(options());
    ASSERT_TRUE(made) << to_string(made.error());  // a machine without a sandbox cannot show that these hold
  }
  static spec::EnvironmentOptions options(std::int64_t attempts = 1) {
    spec::EnvironmentOptions options = options_of(spec::EnvironmentKind::code);
    options.attempts = attempts;
    options.code_seconds = 2;
    return options;
  }
  const std::string row_ = R"({"prompt": "Write f.", "tests": ["assert f(1) == 2", "assert f(2) == 3", "assert f(3) == 4"]})";
  const std::string right_ = "```python\ndef f(x):\n  return x + 1\n```", half_ = "def f(x):\n  return 2 if x == 1 else 0\n",
                    broken_ = "def f(x):\n  return y\n";
};

TEST_F(CodeEpisodes, EarnTheShareOfTestsWithMoreForAllAndLessForErrors) {
  const std::vector<std::pair<std::string, double>> table{
      {right_, 2}, {half_, 1.0 / 3}, {broken_, -0.5}, {"def f(x:", -0.5}, {"while True: pass", -0.5}};
  for (const auto& [program, reward] : table) {
    const Step step = Played(options(), row_).answer(program);
    EXPECT_TRUE(step.done);
    ASSERT_TRUE(step.reward) << step.info.dump();
    EXPECT_DOUBLE_EQ(*step.reward, reward) << program << step.info.dump();
  }
}

TEST_F(CodeEpisodes, TellWhatFailedAndCountTheLastAttemptAlone) {
  Played episode(options(3), row_);
  const Step first = episode.answer(half_);
  EXPECT_FALSE(first.done);
  EXPECT_EQ(first.reward, std::optional(0.0));
  ASSERT_EQ(first.messages.size(), 1u);
  EXPECT_NE(first.messages[0].content.find("1 of 3 tests passed"), std::string::npos);
  EXPECT_DOUBLE_EQ(*episode.session->end_early(), 1.0 / 3);
  const Step second = episode.answer(broken_);
  EXPECT_FALSE(second.done);
  EXPECT_NE(second.messages[0].content.find("NameError"), std::string::npos) << second.messages[0].content;
  const Step last = episode.answer(right_);
  EXPECT_TRUE(last.done);
  EXPECT_DOUBLE_EQ(*last.reward, 2);
}

TEST_F(CodeEpisodes, AreUnknownWhereTheTestsThemselvesAreAtFault) {
  const Step step = Played(options(), R"({"prompt": "Write f.", "tests": "assert ("})").answer(right_);
  EXPECT_TRUE(step.done);
  EXPECT_EQ(step.reward, std::nullopt);
  EXPECT_TRUE(step.info.contains("fault"));
}

std::string call(const std::string& tool, const std::string& arguments) {
  return "I look.\n<tool_call>\n{\"name\": \"" + tool + "\", \"arguments\": " + arguments + "}\n</tool_call>";
}

TEST(ToolEnvironment, RewardsCallsAndTheAnswer) {
  spec::EnvironmentOptions options = options_of(spec::EnvironmentKind::tool);
  options.turns = 8;
  Played episode(options, R"({"prompt": "What is 1234 times 5678?", "answer": "7006652", "required_tools": ["calculator"],
                              "documents": ["Cats purr.", "Dogs bark."]})");
  ASSERT_TRUE(episode.session) << episode.fault;
  const auto messages = episode.session->messages();
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_NE(messages[0].content.find("calculator, with the argument \"expression\""), std::string::npos);

  Step step = episode.answer(call("search", R"({"query": "what do dogs do"})"));
  EXPECT_DOUBLE_EQ(*step.reward, -0.1);  // there, but not what is required
  EXPECT_EQ(step.messages, (std::vector<Message>{{"tool", "Dogs bark."}}));
  step = episode.answer(call("telephone", "{}"));
  EXPECT_DOUBLE_EQ(*step.reward, -0.2);
  step = episode.answer("<tool_call>{\"name\": calculator}</tool_call>");
  EXPECT_DOUBLE_EQ(*step.reward, -0.1);
  EXPECT_FALSE(step.done);
  EXPECT_DOUBLE_EQ(*episode.session->end_early(), 0);
  step = episode.answer(call("calculator", R"({"expression": "1234 * 5678"})"));
  EXPECT_DOUBLE_EQ(*step.reward, 0.3);
  EXPECT_EQ(step.messages[0].content, "7006652");
  EXPECT_DOUBLE_EQ(*episode.session->end_early(), 0.3);
  step = episode.answer("It is 7,006,652.");
  EXPECT_TRUE(step.done);
  EXPECT_DOUBLE_EQ(*step.reward, 0.5 + 0.3 + 0.2 * (1 - 5.0 / 8));
}

TEST(ToolEnvironment, GivesAWrongAnswerOnlyWhatTheToolsEarned) {
  const std::string row = R"({"prompt": "?", "answer": "the red house", "required_tools": ["calculator", "search"], "documents": ["x"],
                              "tools": ["calculator", "search"]})";
  Played episode(options_of(spec::EnvironmentKind::tool), row);
  EXPECT_DOUBLE_EQ(*episode.answer(call("calculator", R"({"expression": "1+1"})")).reward, 0.3);
  EXPECT_DOUBLE_EQ(*episode.answer("A red car.").reward, 0.3 / 2);
  EXPECT_DOUBLE_EQ(*Played(options_of(spec::EnvironmentKind::tool), row).answer("The Red House!").reward, 0.5 + 0.2 * 7 / 8);
}

TEST(ToolEnvironment, EndsAtItsLastTurn) {
  spec::EnvironmentOptions options = options_of(spec::EnvironmentKind::tool);
  options.turns = 1;
  options.tool_role = "user";
  const Step step = Played(options, R"({"prompt": "?", "answer": "2"})").answer(call("calculator", R"({"expression": "1+1"})"));
  EXPECT_TRUE(step.done);
  EXPECT_TRUE(step.messages.empty());
  EXPECT_DOUBLE_EQ(*step.reward, 0.3 + 0.3);
}

TEST(ToolEnvironment, RunsProgramsInASandbox) {
  Played episode(options_of(spec::EnvironmentKind::tool), R"({"prompt": "?", "answer": "2", "tools": ["python"]})");
  ASSERT_TRUE(episode.session) << episode.fault;
  EXPECT_EQ(episode.answer(call("python", R"row({"code": "print(sum(range(5)))"})row")).messages[0].content, "10");
  const Step failed = episode.answer(call("python", R"row({"code": "open('/etc/hostname')"})row"));
  EXPECT_NE(failed.messages[0].content.find("Error"), std::string::npos);
}

TEST(ToolEnvironment, RefusesRowsWhoseToolsDoNotExist) {
  const auto fault = [](const std::string& row) { return Played(options_of(spec::EnvironmentKind::tool), row).fault; };
  EXPECT_NE(fault(R"({"prompt": "?", "answer": "2", "tools": ["phone"]})").find("phone"), std::string::npos);
  EXPECT_NE(fault(R"({"prompt": "?", "answer": "2", "required_tools": ["python"]})").find("python"), std::string::npos);
  EXPECT_NE(fault(R"({"prompt": "?", "answer": "2", "tools": ["search"]})").find("documents"), std::string::npos);
  EXPECT_NE(fault(R"({"prompt": "?"})").find("right answer"), std::string::npos);
}

TEST(Calculator, ComputesWhatIsArithmetic) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"2 + 3 * 4", "14"},   {"-2^2", "-4"},     {"2^3^2", "512"},    {"2**-1", "0.5"},  {"sqrt(16) + sin(0)", "4"},
      {"(1 + 2) / 4", "0.75"}, {"7 % 4", "3"},   {"round(pi)", "3"},  {"1/3", "0.333333333333"}};
  for (const auto& [expression, value] : table) {
    const auto found = calculate(expression);
    ASSERT_TRUE(found) << expression;
    EXPECT_EQ(*found, value) << expression;
  }
  for (const std::string wrong : {"", "2 +", "1/0", "import os", "2(3)", "sqrt 4", "(1"}) EXPECT_FALSE(calculate(wrong)) << wrong;
  EXPECT_FALSE(calculate(std::string(900, '(')));
  EXPECT_FALSE(calculate(std::string(900, '-') + "1"));
}

TEST(DebateEnvironment, ScoresArgumentsByTheTable) {
  const ArgumentScore score = score_argument(
      "First, cities benefit because a study of 40 towns found cleaner air. Therefore cars should leave.\n\nFinally, people walk.",
      "Cities should ban cars");
  EXPECT_DOUBLE_EQ(score.length, 19.0 / 100);
  EXPECT_DOUBLE_EQ(score.evidence, 2.0 / 3);
  EXPECT_DOUBLE_EQ(score.reasoning, 2.0 / 3);
  EXPECT_DOUBLE_EQ(score.structure, 1);
  EXPECT_DOUBLE_EQ(score.relevance, 2.0 / 2);
  EXPECT_DOUBLE_EQ(score.worth(), 0.2 * 0.19 + 0.25 * 2 / 3 + 0.25 * 2 / 3 + 0.15 + 0.15);
}

TEST(DebateEnvironment, JudgesTheWholeDebateOnce) {
  spec::EnvironmentOptions options = options_of(spec::EnvironmentKind::debate);
  options.rounds = 2;
  const std::string row = R"({"topic": "Cities should ban cars", "position": "against", "key_points": ["jobs depend on cars", "buses"],
                              "opponent": ["One.", "Two."]})";
  Played episode(options, row);
  ASSERT_TRUE(episode.session) << episode.fault;
  EXPECT_NE(episode.session->messages()[0].content.find("One."), std::string::npos);  // the other side begins
  const std::string first = "Many jobs depend upon cars", second = "Families depend upon cars daily";
  const Step step = episode.answer(first);
  EXPECT_FALSE(step.done);
  EXPECT_EQ(step.reward, std::optional(0.0));
  EXPECT_EQ(step.messages, (std::vector<Message>{{"user", "Two."}}));
  const Step last = episode.answer(second);
  EXPECT_TRUE(last.done);
  const double mean = (score_argument(first, "Cities should ban cars").worth() + score_argument(second, "Cities should ban cars").worth()) / 2;
  EXPECT_DOUBLE_EQ(*last.reward, 0.6 * mean + 0.2 * 2 / 5 + 0.2 * 0.5);
}

TEST(DebateEnvironment, TakesTheSideThatFollowsFromTheSeed) {
  std::set<std::string> openings;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Played one(options_of(spec::EnvironmentKind::debate), R"({"topic": "Cats"})", seed_of_row(7, seed));
    Played same(options_of(spec::EnvironmentKind::debate), R"({"topic": "Cats"})", seed_of_row(7, seed));
    EXPECT_EQ(one.session->messages(), same.session->messages());
    openings.insert(one.session->messages()[0].content);
  }
  EXPECT_EQ(openings.size(), 2u);
}

TEST(Environments, AddUpTheRewardsOfTheirSteps) {
  spec::EnvironmentOptions options;
  EXPECT_EQ(worth_of({0.3, 0.5}, options), std::optional(0.8));
  EXPECT_EQ(worth_of({0.3, std::nullopt}, options), std::nullopt);
  options.scale = 2;
  options.bias = -1;
  options.clip = 0.5;
  EXPECT_EQ(worth_of({0.3, 0.4}, options), std::optional(0.3999999999999999));
  EXPECT_EQ(worth_of({1, 1}, options), std::optional(0.5));
}

}  // namespace
}  // namespace muster::environment
