// Answers that are programs.
#include "reward/code_part.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "sandbox/sandbox.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::reward {
namespace {

constexpr const char* human_eval_row =
    R"({"prompt": "import math\n\ndef double(x):\n    '''Twice x.'''\n",)"
    R"( "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 6\n", "entry_point": "double"})";

Result<CodeTask> task_of(std::string row, std::string completion) {
  const Question question{"words", std::nullopt, std::move(row)};
  return code_task({&question, std::move(completion), 1, true, 10});
}

TEST(CodeTask, ContinuesThePromptOfARowLikeHumanEvals) {
  const auto task = task_of(human_eval_row, "    return 2 * x\n");
  ASSERT_TRUE(task);
  EXPECT_EQ(task->given, "import math\n\ndef double(x):\n    '''Twice x.'''\n");
  EXPECT_EQ(task->program, task->given + "    return 2 * x\n");
  EXPECT_EQ(task->entry_point, "double");
}

TEST(CodeTask, TakesTheLastBlockOfAnAnswerInWords) {
  const auto task = task_of(R"({"tests": ["assert f(1) == 2", "assert f(2) == 3"]})",
                            "First\n```\nx\n```\nthen\n```python\ndef f(x):\n  return x + 1\n```\nDone.");
  ASSERT_TRUE(task);
  EXPECT_EQ(task->program, "\ndef f(x):\n  return x + 1\n");
  EXPECT_EQ(task->tests, "assert f(1) == 2\nassert f(2) == 3\n");
  EXPECT_EQ(task_of(R"({"tests": "assert f"})", "```\nx\n```\nthen\n```python\ndef f(")->program, "\ndef f(");
}

TEST(CodeTask, PutsSetUpBeforeTests) {
  const auto task = task_of(R"row({"test_list": ["assert f(math.pi)"], "test_setup_code": "", "test_imports": ["import math"]})row", "");
  ASSERT_TRUE(task);
  EXPECT_EQ(task->tests, "import math\n\nassert f(math.pi)\n");
}

TEST(CodeTask, RefusesARowWithoutTests) {
  for (const char* row : {"", "{}", R"({"tests": []})", R"({"test": null})"}) {
    const auto task = task_of(row, "x = 1");
    ASSERT_FALSE(task) << row;
    EXPECT_NE(task.error().remedy.find("assert"), std::string::npos);
  }
}

class CodeTests : public ::testing::Test {
 protected:
  CodeTests() {
    options_.functions = {spec::RewardFunction::code_tests};
    if (std::ifstream("/usr/bin/python3")) options_.code_python = "/usr/bin/python3";
  }
  void SetUp() override {
    if (const auto sandbox = sandbox::Sandbox::open(); !sandbox) GTEST_SKIP() << to_string(sandbox.error());
  }

  std::vector<std::optional<double>> rewards(const std::vector<std::string>& completions, std::string row = human_eval_row) {
    auto judge = make_judge(options_, [&](const std::string& line) { reported_ += line; });
    if (!judge) throw std::runtime_error(to_string(judge.error()));
    const Question question{"", std::nullopt, std::move(row)};
    std::vector<Answered> answers;
    for (const std::string& completion : completions) answers.push_back({&question, completion, 1, true, 10});
    const auto judged = judge->judge(answers);
    if (!judged) throw std::runtime_error(to_string(judged.error()));
    std::vector<std::optional<double>> values;
    for (const Judged& one : *judged) values.push_back(one.reward);
    return values;
  }

  spec::RewardOptions options_;
  std::string reported_;
};

using Rewards = std::vector<std::optional<double>>;

TEST_F(CodeTests, GiveTheShareThatPassesInTheOrderOfTheAnswers) {
  options_.code_at_once = 3;
  EXPECT_EQ(rewards({"    return 2 * x", "    return 4", "    return 0", "    import os; os._exit(0)", "    return x + x",
                     "```python\ndef double(x): return 2 * x\n```"}),
            (Rewards{1, 0.5, 0, 0, 1, 1}));
  EXPECT_EQ(reported_, "");
}

TEST_F(CodeTests, GiveAllOrNothingWhereTheSettingSaysSo) {
  options_.code_scoring = spec::CodeScoring::all;
  EXPECT_EQ(rewards({"    return 2 * x", "    return 4"}), (Rewards{1, 0}));
}

TEST_F(CodeTests, DoNotKnowWhereTheTestsThemselvesFail) {
  EXPECT_EQ(rewards({"def f(): pass"}, R"({"tests": "assert f( =="})"), (Rewards{std::nullopt}));
  EXPECT_NE(reported_.find("the tests are not Python"), std::string::npos) << reported_;
}

TEST_F(CodeTests, EndAProgramAtItsLimitOfTime) {
  options_.code_seconds = 1;
  EXPECT_EQ(rewards({"    while x == 3: pass\n    return 2 * x"}), (Rewards{0.5}));
}

TEST_F(CodeTests, RefuseAPythonThatIsNone) {
  options_.code_python = "/nonexistent/python";
  EXPECT_FALSE(make_judge(options_));
}

}  // namespace
}  // namespace muster::reward
