#include "reward/math/check.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "reward/math/final_answer.hpp"

namespace muster::reward::math {

void PrintTo(Verdict verdict, std::ostream* out) {
  *out << (verdict == Verdict::equal ? "equal" : verdict == Verdict::different ? "different" : "unknown");
}

namespace {

struct Pair {
  std::string right, given;
};

void expect_all(Verdict verdict, const std::vector<Pair>& pairs) {
  for (const auto& [right, given] : pairs) EXPECT_EQ(compare_answers(right, given), verdict) << right << " | " << given;
}

TEST(MathCheck, ReadsOneNumberInAllItsSpellings) {
  expect_all(Verdict::equal,
             {{"1/2", "0.5"}, {"\\frac{1}{2}", "\\dfrac12"}, {"0.5", ".50"}, {"1234567", "1,234,567"}, {"1234", "1{,}234"},
              {"3.5", "3\\frac{1}{2}"}, {"3.5", "3 1/2"}, {"-3/4", "-\\frac{3}{4}"}, {"1500", "1.5e3"},
              {"1500", "1.5 \\times 10^3"}, {"1/3", "0.\\overline{3}"}, {"7/22", "0.3\\overline{18}"}, {"50%", "0.5"},
              {"50", "50\\%"}, {"18", "\\$18"}, {"18", "$18.00$"}, {"90", "90^\\circ"}, {"12", "12 \\text{ cm}^2"},
              {"12", "12 apples"}, {"12 cm", "12"}, {"2", "\\sqrt{4}"}, {"\\frac{-1}{2}", "-0.5"}, {"120", "5!"},
              {"10", "\\binom{5}{2}"}, {"1024", "2^{10}"}, {"-5", "−5"}, {"1/2", "½"}});
  expect_all(Verdict::different, {{"1/2", "0.51"}, {"1/3", "0.33"}, {"1/3", "0.333"}, {"5", "-5"}, {"12345678901234567890", "12345678901234567891"},
                                  {"50%", "0.05"}, {"1 1/2", "11/2"}, {"2^{100}", "2^{100}+1"}, {"5", ""}, {"5", "}{"}, {"5", "five"}});
}

TEST(MathCheck, TakesSixDecimalsForTheNumberThatIsRoundedToThem) {
  expect_all(Verdict::equal, {{"1/3", "0.333333"}, {"\\sqrt{2}", "1.414214"}, {"3.141593", "\\pi"}, {"2/3", "0.6666667"}});
  expect_all(Verdict::different, {{"1/3", "0.33333"}, {"\\sqrt{2}", "1.414213"}, {"\\pi", "3.14"}, {"1/3", "0.333334"}});
}

TEST(MathCheck, ComparesExpressionsByWhatTheyMean) {
  expect_all(Verdict::equal,
             {{"(x+1)^2", "x^2+2x+1"}, {"2\\sqrt{3}", "\\sqrt{12}"}, {"\\frac{\\sqrt{2}}{2}", "1/\\sqrt2"}, {"x(y+z)", "xy + xz"},
              {"\\frac{x^2-1}{x-1}", "x+1"}, {"\\sin^2 x + \\cos^2 x", "1"}, {"e^{i\\pi}", "-1"}, {"(1+i)^2", "2i"},
              {"\\ln 8", "3\\ln 2"}, {"\\log_2 8", "3"}, {"2\\pi r", "r \\cdot 2 \\cdot \\pi"}, {"x^{-1}", "1/x"},
              {"\\sqrt[3]{27}", "3"}, {"|x-3|", "|3-x|"}, {"a_1 + a_{2}", "a_2 + a_1"}, {"\\alpha+1", "1+\\alpha"},
              {"2*x**2", "2x^2"}, {"sqrt(8)", "2\\sqrt{2}"}, {"\\frac{1+\\sqrt{5}}{2}", "\\frac{\\sqrt5+1}2"}});
  expect_all(Verdict::different, {{"(x+1)^2", "x^2+1"}, {"x", "y"}, {"2\\sqrt{3}", "\\sqrt{6}"}, {"x_1", "x_2"}, {"\\pi", "e"},
                                  {"x+1", "1-x"}, {"2x", "2"}, {"e^x", "e^{-x}"}});
}

TEST(MathCheck, SaysUnknownWhereItCannotTell) {
  expect_all(Verdict::unknown,
             {{"10", "\\int_0^{10} dx"}, {"\\log 100", "2"}, {"101_2", "5"}, {"x > 3", "(3, \\infty)"}, {"\\sqrt{x^2}", "x"},
              {"\\sqrt[3]{-8}", "-2"}, {"(1,2)", "\\{1,2\\}"}, {"\\frac{x}{2}", "1/2x"},
              {"\\frac{3\\pi}{2}", "1\\frac{1}{2}\\pi"}, {"262537412640768744", "e^{\\pi\\sqrt{163}}"}});
}

TEST(MathCheck, KeepsTheOrderOfTuplesAndNoneOfSets) {
  expect_all(Verdict::equal, {{"(1, 2)", "(1,2)"}, {"\\{1, 2\\}", "\\{2,1\\}"}, {"1, 2", "2 and 1"}, {"1,2", "x=2 or x=1"},
                              {"(1/2, 3)", "\\left(0.5, 3\\right)"}, {"\\{5\\}", "5"}, {"1,2", "\\{1,2\\}"}, {"(1,2)", "1,2"},
                              {"\\emptyset", "\\{\\}"}});
  expect_all(Verdict::different, {{"(1,2)", "(2,1)"}, {"\\{1,2\\}", "\\{1,3\\}"}, {"1,2", "1,2,3"}, {"(1,2)", "(1,2,3)"}, {"1, 2", "1"}});
}

TEST(MathCheck, ReadsPlusMinusAsTwoValues) {
  expect_all(Verdict::equal, {{"\\pm 2", "2, -2"}, {"x = \\pm\\sqrt{2}", "-\\sqrt2, \\sqrt2"}, {"1 \\pm \\sqrt{3}", "\\{1-\\sqrt3, 1+\\sqrt3\\}"},
                              {"\\frac{1\\pm\\sqrt5}{2}", "\\frac{1\\mp\\sqrt5}{2}"}});
  expect_all(Verdict::different, {{"\\pm 2", "2"}, {"\\pm 2", "\\pm 3"}});
}

TEST(MathCheck, ComparesIntervalsWithTheirBrackets) {
  expect_all(Verdict::equal, {{"[0, 1)", "\\left[0,1\\right)"}, {"(-\\infty, 1/2]", "(-\\infty, 0.5]"}, {"x \\in [0,1]", "[0,1]"},
                              {"(-\\infty,1)\\cup(2,\\infty)", "(2,\\infty)\\cup(-\\infty,1)"}});
  expect_all(Verdict::different, {{"[0,1)", "[0,1]"}, {"(0,1)", "[0,1]"}, {"(-\\infty,1)", "(1,\\infty)"}});
}

TEST(MathCheck, ComparesRelationsAndWhatTheyAssign) {
  expect_all(Verdict::equal, {{"5", "x = 5"}, {"x = 5", "5"}, {"46", "12+34=46"}, {"y = 2x+1", "y=1+2x"}, {"y = 2x + 1", "2x - y + 1 = 0"},
                              {"x > 3", "3 < x"}, {"1 < x \\le 2", "2 \\ge x > 1"}, {"2x < 4", "x < 2"}, {"f(x) = x^2", "x^2"}});
  expect_all(Verdict::different, {{"x = 5", "x = 6"}, {"5", "x = 6"}, {"x > 3", "3"}, {"x > 3", "x < 3"},
                                  {"x > 3", "x \\ge 3"}, {"1 < x < 2", "1 < x \\le 2"}, {"1 < x < 2", "x < 2"}, {"x \\ne 1", "x = 1"}});
  EXPECT_NE(compare_answers("-x < 3", "x < 3"), Verdict::equal);
  EXPECT_NE(compare_answers("x = 1", "y = 1"), Verdict::equal);
}

TEST(MathCheck, ComparesMatricesCellByCell) {
  const std::string right = "\\begin{pmatrix} 1 & 1/2 \\\\ 3 & 4 \\end{pmatrix}";
  EXPECT_EQ(compare_answers(right, "\\begin{pmatrix}1&0.5\\\\3&4\\end{pmatrix}"), Verdict::equal);
  EXPECT_EQ(compare_answers(right, "\\begin{pmatrix}1&0.5\\\\4&3\\end{pmatrix}"), Verdict::different);
  EXPECT_EQ(compare_answers(right, "\\begin{pmatrix}1&0.5&3&4\\end{pmatrix}"), Verdict::different);
}

TEST(MathCheck, ComparesWordsAndChoices) {
  expect_all(Verdict::equal, {{"\\text{Monday}", "monday"}, {"\\text{(A)}", "A"}, {"B", "(B)"}, {"yes", "Yes"}});
  expect_all(Verdict::different, {{"\\text{even}", "\\text{prime}"}, {"A", "B"}, {"east", "west"}});
}

TEST(MathCheck, EndsForWhateverItIsGiven) {
  EXPECT_NE(compare_answers("5", std::string(100'000, '(')), Verdict::equal);
  EXPECT_NE(compare_answers("5", std::string(100'000, '{')), Verdict::equal);
  EXPECT_NE(compare_answers("5", std::string(50'000, '-')), Verdict::equal);
  EXPECT_NE(compare_answers("5", "9^9^9^9^9^9^9"), Verdict::equal);
  EXPECT_NE(compare_answers("5", "(((9!)!)!)!"), Verdict::equal);
  EXPECT_NE(compare_answers("5", "1e999999999999999999"), Verdict::equal);
  EXPECT_NE(check("5", std::string(20'000, '$')), Verdict::equal);
  EXPECT_NE(check("5", "\\boxed{" + std::string(20'000, '{')), Verdict::equal);
  std::string boxes;
  for (int i = 0; i < 5000; ++i) boxes += "\\boxed{answer";
  EXPECT_NE(check("5", boxes), Verdict::equal);
}

TEST(FinalAnswer, IsLookedForWhereAnswersAre) {
  const std::vector<Pair> cases{
      {"So we get \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"},
      {"First \\boxed{1}, no, \\boxed{2}", "2"},
      {"4 * 5 = <<4*5=20>>20\n#### 1,020", "1,020"},
      {"The answer is 42.", "42."},
      {"The final answer is $x^2$, since $y = 3$.", "x^2"},
      {"**Answer:** 17", "17"},
      {"The answer is 5 apples of the 7", "5 apples"},
      {"The answer to this question is:\n12", "12"},
      {"We have $a=1$ and so $b = 2$ holds", "b = 2"},
      {"thus \\( 7 \\) it is", " 7 "},
      {"3/4", "3/4"},
      {"There are 12 eggs and 3 remain, I think", "3"},
      {"<think>\\boxed{1}</think> \\boxed{2}", "2"},
      {"nothing at all", "nothing at all"},
  };
  for (const auto& [text, answer] : cases) EXPECT_EQ(final_answer(text), answer) << text;
}

TEST(MathCheck, ComparesASolutionWithACompletion) {
  EXPECT_EQ(check("Natalia sold 48/2 = 24.\n#### 72", "She sold 24 in May, so 48 + 24 = 72 in all."), Verdict::equal);
  EXPECT_EQ(check("so it is $\\boxed{\\frac{3}{4}}$.", "The answer is 0.75."), Verdict::equal);
  EXPECT_EQ(check("72", "I do not know."), Verdict::different);
  EXPECT_EQ(check("72", ""), Verdict::different);
}

}  // namespace
}  // namespace muster::reward::math
