// builtin:arithmetic: questions whose answers can be checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace muster::data {

struct ArithmeticSettings {
  std::string operations = "+";  // any of + - *, each once
  std::int64_t digits = 2;       // numbers are from 0 up to that many nines
  double held_out = 0.12;        // share of the questions that are not trained on
  std::uint64_t seed = 0;        // which questions are drawn, where there are too many to have all; their order

  bool operator==(const ArithmeticSettings&) const = default;
};

// "12+34=" and "46".
struct Question {
  std::string prompt;
  std::string answer;

  bool operator==(const Question&) const = default;
};

// The right answer with one other digit, the same one whenever it is asked for.
std::string wrong_answer(const Question& question);

struct Questions {
  std::vector<Question> training;
  std::vector<Question> held_out;
};

// Every question there is, or, beyond a million, a million of them drawn by the seed. Whether one is held out follows
// from the question alone: no setting other than the share changes it. Both lists are in random order, so that the
// first ones of each are a fair sample.
Result<Questions> arithmetic_questions(const ArithmeticSettings& settings);

}  // namespace muster::data
