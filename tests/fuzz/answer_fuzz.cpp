// Feeds damaged answers of mathematics to the checker: answer_fuzz [--inputs N] [--seed S]. A crash, a sanitizer report or an
// input that takes far too long ends it, with the input on standard error; so does an answer that is not equal to itself.
#include <cstdlib>
#include <string>
#include <vector>

#include "fuzz/fuzz_frame.hpp"
#include "fuzz/mutator.hpp"
#include "reward/math/check.hpp"
#include "reward/math/clean_text.hpp"

namespace muster::reward::math {
namespace {

const std::vector<std::string> corpus{
    "\\frac{3}{4}", "0.75", "3 1/2", "1,234,567", "-2.5e-3", "0.\\overline{36}", "50\\%", "x^2 + 2x + 1", "(x+1)^2", "2\\sqrt{3}",
    "\\sqrt[3]{27}", "\\frac{1 \\pm \\sqrt{5}}{2}", "\\{1, 2, 3\\}", "(1, 2)", "[0, 1)", "(-\\infty, 1) \\cup (2, \\infty)", "x = 5",
    "1 < x \\le 2", "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "\\sin^2 x + \\cos^2 x", "e^{i\\pi}", "\\log_2 8", "\\binom{5}{2}", "5!",
    "|x - 3|", "\\text{even}", "12 \\text{ cm}^2", "90^\\circ", "So the answer is $\\boxed{\\frac{1}{2}}$.", "12 * 4 = 48\n#### 48",
    "<think>\\boxed{1}</think>\n**Answer:** 17", "There are 12 eggs, and 3 remain."};
const std::vector<std::string> words{"\\frac", "\\sqrt", "\\boxed{", "\\text{", "\\begin{matrix}", "\\end{matrix}", "\\pm", "\\cup", "\\in", "\\le", "\\infty", "\\pi",
                                     "{", "}", "(", ")", "[", "]", "\\{", "\\}", "^", "_", "!", "|", "/", "%", ",", "=", "<", "&", "\\\\", "####", "$", "answer is ",
                                     "x", "i", "e", "sin", "\\ln", "1", "0.5", "99999999999999999999", "e999999", "\\overline{3}", "π", "½", "−"};

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed) : mutator_(corpus, words, seed) {}

  void one() {
    ++tried_;
    const std::string right = mutator_.below(2) == 0 ? corpus[mutator_.below(corpus.size())] : mutator_.next();
    const std::string given = mutator_.next();
    fuzz::watched = right + "\n" + given;
    count(compare_answers(right, given));
    count(check(right, given));
    if (!clean(given).empty() && compare_answers(given, given) != Verdict::equal) std::abort();
  }
  std::vector<fuzz::Reached> reached() const {
    return {{"equal", equal_, tried_ / 100}, {"different", different_, tried_ / 10}, {"unknown", unknown_, tried_ / 10}};
  }

 private:
  void count(Verdict verdict) {
    ++(verdict == Verdict::equal ? equal_ : verdict == Verdict::different ? different_ : unknown_);
  }

  Mutator mutator_;
  std::size_t tried_ = 0, equal_ = 0, different_ = 0, unknown_ = 0;
};

}  // namespace
}  // namespace muster::reward::math

int main(int count, char** words) {
  return muster::fuzz::run<muster::reward::math::Fuzzer>("answer_fuzz", count, words, 50'000, 1'000);
}
