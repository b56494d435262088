// How sampled answers are judged, as ranks get it: functions of prompt, answer and right answer, and how they are put
// together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/values.hpp"

namespace muster::spec {

enum class RewardFunction { exact, contains, numeric, math, format, length, repetition, digits, program, code_tests, model };
std::vector<Word<RewardFunction>> words(RewardFunction);

// What an expression must match: all of an answer, or some part of it.
enum class FormatMatch { whole, search };
std::vector<Word<FormatMatch>> words(FormatMatch);

// What becomes of a part that a function cannot tell: it is left out of the sum, or counts as 0.
enum class UnknownReward { left_out, zero };
std::vector<Word<UnknownReward>> words(UnknownReward);

// What a program gets that passes some of its tests.
enum class CodeScoring { share, all };
std::vector<Word<CodeScoring>> words(CodeScoring);

struct RewardOptions {
  std::vector<RewardFunction> functions = {};
  std::vector<double> weights = {};  // one for each function; empty: 1 each
  UnknownReward unknown = UnknownReward::left_out;
  std::string format = {};  // regular expression of `format`
  FormatMatch format_match = FormatMatch::whole;
  std::optional<std::int64_t> length_margin = {};  // of `length`: tokens below the limit; absent: a fifth of the room
  std::int64_t repetition_words = 3;               // of `repetition`: in a row
  std::vector<std::string> program = {};           // one text: a line for sh; several: a program and its arguments
  double program_seconds = 60;                     // for one batch
  std::int64_t program_restarts = 3;               // in a row, before it is given up
  std::int64_t program_batch = 32;                 // answers it is asked about at once
  CodeScoring code_scoring = CodeScoring::share;
  std::int64_t code_seconds = 10;                 // of `code_tests`: on the CPU, for one program
  std::optional<std::int64_t> code_at_once = {};  // absent: as many as there are cores
  std::string code_python = "python3";
  double scale = 1;                                // reward = clip(scale · sum + bias)
  double bias = 0;
  std::optional<double> clip = {};  // to ± this

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("functions", self.functions);
    visit("weights", self.weights);
    visit("unknown", self.unknown);
    visit("format", self.format);
    visit("format_match", self.format_match);
    visit("length_margin", self.length_margin);
    visit("repetition_words", self.repetition_words);
    visit("program", self.program);
    visit("program_seconds", self.program_seconds);
    visit("program_restarts", self.program_restarts);
    visit("program_batch", self.program_batch);
    visit("code_scoring", self.code_scoring);
    visit("code_seconds", self.code_seconds);
    visit("code_at_once", self.code_at_once);
    visit("code_python", self.code_python);
    visit("scale", self.scale);
    visit("bias", self.bias);
    visit("clip", self.clip);
  }
  bool operator==(const RewardOptions&) const = default;
};

// Whether it compares with the right answer, so that every question must have one.
constexpr bool needs_answer(RewardFunction function) {
  using enum RewardFunction;
  return function == exact || function == contains || function == numeric || function == math || function == digits;
}

}  // namespace muster::spec
