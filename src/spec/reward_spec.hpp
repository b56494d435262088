// The settings of rewards: how sampled answers are judged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/reward_options.hpp"

namespace muster::spec {

struct RewardSpec {
  std::optional<std::vector<RewardFunction>> functions;
  std::vector<double> weights;
  UnknownReward unknown = UnknownReward::left_out;
  std::optional<std::string> format;
  FormatMatch format_match = FormatMatch::whole;
  std::optional<std::int64_t> length_margin;
  std::int64_t repetition_words = 3;
  ExactTexts program;
  double program_seconds = 60;
  std::int64_t program_restarts = 3;
  CodeScoring code_scoring = CodeScoring::share;
  std::int64_t code_seconds = 10;
  std::optional<std::int64_t> code_at_once;
  std::string code_python = "python3";
  std::optional<std::string> model;
  double scale = 1;
  double bias = 0;
  std::optional<double> clip;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("functions", &RewardSpec::functions, "what judges an answer; the weighted results are added up");
    field("weights", &RewardSpec::weights, "what each function counts; empty: 1 each");
    field("unknown", &RewardSpec::unknown,
          "what becomes of a result that a function cannot tell: left out of the sum, or 0; an answer without any result "
          "has no reward");
    field("format", &RewardSpec::format, "of format: the regular expression (PCRE2) that gives 1, all else 0");
    field("format_match", &RewardSpec::format_match, "of format: whether all of an answer matches, or some part of it");
    field("length_margin", &RewardSpec::length_margin,
          "of length: where the penalty begins, counted back from the most tokens of an answer; not set: a fifth of them")
        .in("tokens")
        .at_least(1);
    field("repetition_words", &RewardSpec::repetition_words, "of repetition: how many words in a row are one")
        .in("words")
        .at_least(1);
    field("program", &RewardSpec::program,
          "of program: what judges over JSON lines, a line for the shell, or a list of a program and its arguments");
    field("program_seconds", &RewardSpec::program_seconds, "of program: how long it has for a batch")
        .in("seconds")
        .above(0)
        .at_most(1e6);
    field("program_restarts", &RewardSpec::program_restarts,
          "of program: how often it is started again for one batch before the run stops")
        .at_least(0);
    field("code_scoring", &RewardSpec::code_scoring,
          "of code_tests: the share of its tests that a program passes, or 1 for all of them and else 0");
    field("code_seconds", &RewardSpec::code_seconds, "of code_tests: how long a program may be on the CPU")
        .in("seconds")
        .at_least(1)
        .at_most(86400);
    field("code_at_once", &RewardSpec::code_at_once,
          "of code_tests: how many programs run at a time; not set: as many as there are cores")
        .in("programs")
        .at_least(1)
        .at_most(1024);
    field("code_python", &RewardSpec::code_python, "of code_tests: the Python that runs programs, a name or a path");
    field("model", &RewardSpec::model,
          "of model: the reward model that scores answers, a folder or a name as of model.path; with -8bit or -4bit behind "
          "it, in so many bits");
    field("scale", &RewardSpec::scale, "factor of the sum, before bias and clip");
    field("bias", &RewardSpec::bias, "added to the scaled sum");
    field("clip", &RewardSpec::clip, "rewards are held between minus and plus this")
        .above(0);
  }
};

}  // namespace muster::spec
