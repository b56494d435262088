#include "data/arithmetic.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "testing/contains.hpp"

namespace muster::data {
namespace {

std::set<std::string> prompts_of(const std::vector<Question>& questions) {
  std::set<std::string> prompts;
  for (const Question& question : questions) prompts.insert(question.prompt);
  return prompts;
}

TEST(Arithmetic, HasEveryTwoDigitAdditionOnceAndHoldsOutAThousand) {
  const auto questions = arithmetic_questions({}).value();
  EXPECT_EQ(questions.training.size() + questions.held_out.size(), 10'000u);
  EXPECT_GE(questions.held_out.size(), 1'000u);
  EXPECT_LE(questions.held_out.size(), 1'400u);
  auto all = prompts_of(questions.training);
  all.merge(prompts_of(questions.held_out));
  EXPECT_EQ(all.size(), 10'000u);
  EXPECT_TRUE(all.contains("12+34="));
}

TEST(Arithmetic, AWrongAnswerHasOneOtherDigitAndIsANumber) {
  const auto questions = arithmetic_questions({.operations = "+-*", .digits = 2}).value();
  std::set<char> changed;
  for (const Question& question : questions.training) {
    const std::string wrong = wrong_answer(question);
    ASSERT_EQ(wrong.size(), question.answer.size()) << question.prompt;
    EXPECT_EQ(std::to_string(std::stoll(wrong)), wrong == "-0" ? "0" : wrong) << question.prompt;
    int others = 0;
    for (std::size_t i = 0; i < wrong.size(); ++i)
      if (wrong[i] != question.answer[i]) {
        ++others;
        changed.insert(wrong[i]);
      }
    EXPECT_EQ(others, 1) << question.prompt << wrong;
    EXPECT_EQ(wrong_answer(question), wrong);
  }
  EXPECT_EQ(changed, (std::set<char>{'0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}));
}

TEST(Arithmetic, AnswersAreRight) {
  const auto questions = arithmetic_questions({.operations = "+-*", .digits = 1}).value();
  for (const auto* list : {&questions.training, &questions.held_out})
    for (const Question& question : *list) {
      const int left = question.prompt[0] - '0', right = question.prompt[2] - '0';
      const char operation = question.prompt[1];
      const int answer = operation == '+' ? left + right : operation == '-' ? left - right : left * right;
      EXPECT_EQ(question.answer, std::to_string(answer)) << question.prompt;
    }
  EXPECT_EQ(questions.training.size() + questions.held_out.size(), 300u);
}

TEST(Arithmetic, HoldsOutByTheQuestionAloneWhateverElseIsAskedFor) {
  const auto plain = prompts_of(arithmetic_questions({}).value().held_out);
  const auto other_seed = arithmetic_questions({.operations = "*+", .digits = 2, .seed = 9}).value();
  const auto trained = prompts_of(other_seed.training);
  for (const std::string& prompt : plain) EXPECT_FALSE(trained.contains(prompt)) << prompt;
  // More are held out where the share is larger, and none comes back.
  const auto more = prompts_of(arithmetic_questions({.held_out = 0.5}).value().held_out);
  EXPECT_GT(more.size(), 4'700u);
  for (const std::string& prompt : plain) EXPECT_TRUE(more.contains(prompt));
}

TEST(Arithmetic, DrawsAMillionByTheSeedWhereThereAreTooMany) {
  const auto one = arithmetic_questions({.digits = 6, .seed = 1}).value();
  EXPECT_EQ(one.training.size() + one.held_out.size(), 1'000'000u);
  EXPECT_EQ(prompts_of(one.training).size(), one.training.size());
  EXPECT_EQ(arithmetic_questions({.seed = 1}).value().training, arithmetic_questions({.seed = 1}).value().training);
  EXPECT_NE(arithmetic_questions({.seed = 1}).value().training, arithmetic_questions({.seed = 2}).value().training);
}

TEST(Arithmetic, RefusesSettingsThatMakeNoQuestions) {
  using testing::contains;
  EXPECT_TRUE(contains(arithmetic_questions({.operations = "/"}).error().what, "'/'"));
  EXPECT_TRUE(contains(arithmetic_questions({.operations = "++"}).error().what, "twice"));
  EXPECT_TRUE(contains(arithmetic_questions({.digits = 10}).error().what, "digits is 10"));
  EXPECT_TRUE(contains(arithmetic_questions({.held_out = 1}).error().what, "held_out is 1"));
}

}  // namespace
}  // namespace muster::data
