#include "reward/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "reward/answer_parts.hpp"
#include "reward/code_part.hpp"
#include "reward/program_part.hpp"
#include "reward/shape_parts.hpp"

namespace muster::reward {
namespace {

using OfFunction = std::vector<std::optional<double>>;

// A function that looks at each answer by itself.
class EachAlone final : public Part {
 public:
  EachAlone(JudgeOne judge, bool needs_answer) : judge_(std::move(judge)), needs_answer_(needs_answer) {}

  Result<OfFunction> judge(std::span<const Answered> answers) override {
    OfFunction values;
    for (const Answered& answered : answers) {
      if (needs_answer_ && !answered.question->answer)
        return bad_input("compares with the right answer, and the data have none for a prompt",
                         "give each row an answer, or judge by functions that need none");
      values.push_back(judge_(answered));
    }
    return values;
  }

 private:
  JudgeOne judge_;
  bool needs_answer_;
};

Result<JudgeOne> function_of(spec::RewardFunction function, const spec::RewardOptions& options) {
  using enum spec::RewardFunction;
  switch (function) {
    case exact:
      return JudgeOne(is_exact);
    case contains:
      return JudgeOne(contains_answer);
    case numeric:
      return JudgeOne(has_last_number);
    case math:
      return JudgeOne(is_mathematically_equal);
    case digits:
      return JudgeOne(share_of_characters);
    case length:
      return JudgeOne([margin = options.length_margin](const Answered& answer) { return overlong_penalty(answer, margin); });
    case repetition:
      return JudgeOne(
          [words = options.repetition_words](const Answered& answer) { return repetition_penalty(answer, words); });
    case format:
      return match_format(options.format, options.format_match);
    case program:
    case code_tests:
    case model:
      break;  // they judge in batches
  }
  throw std::logic_error("a reward function without a place");
}

std::string_view name_of(spec::RewardFunction function) {
  for (const auto& word : words(function))
    if (word.value == function) return word.text;
  throw std::logic_error("a reward function without a name");
}

}  // namespace

Judge::Judge(const spec::RewardOptions& options, std::vector<Weighted> parts)
    : options_(options), parts_(std::move(parts)) {}

std::vector<std::string_view> Judge::names() const {
  std::vector<std::string_view> names;
  for (const Weighted& part : parts_) names.push_back(part.name);
  return names;
}

// A function of weight 0 is only looked at: it makes no unknown reward known.
std::optional<double> Judge::combine(const OfFunction& parts) const {
  double sum = 0;
  bool known = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i] || parts_[i].weight == 0) continue;
    sum += parts_[i].weight * *parts[i];
    known = true;
  }
  const double reward = options_.scale * sum + options_.bias;
  if (!known || !std::isfinite(reward)) return std::nullopt;
  return options_.clip ? std::clamp(reward, -*options_.clip, *options_.clip) : reward;
}

Result<OfFunction> Judge::ask(const Weighted& part, std::span<const Answered> answers) const {
  auto values = part.part->judge(answers);
  if (values) return values;
  return Error{values.error().kind, fmt::format("reward function {}: {}", part.name, values.error().what),
               values.error().remedy};
}

Result<Judge::Values> Judge::judge_on_device(std::span<const Answered> answers) {
  Values known(parts_.size());
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (!parts_[part].part->uses_device()) continue;
    auto values = ask(parts_[part], answers);
    if (!values) return values.error();
    known[part] = std::move(*values);
  }
  return known;
}

Result<std::vector<Judged>> Judge::judge(std::span<const Answered> answers, Values known) {
  known.resize(parts_.size());
  std::vector<Judged> judged(answers.size());
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    auto values = known[part] ? Result(std::move(*known[part])) : ask(parts_[part], answers);
    if (!values) return values.error();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const bool zero = !(*values)[i] && options_.unknown == spec::UnknownReward::zero;
      judged[i].parts.push_back(zero ? 0 : (*values)[i]);
    }
  }
  for (Judged& one : judged) one.reward = combine(one.parts);
  return judged;
}

Result<Judge> make_judge(const spec::RewardOptions& options, Report report, std::unique_ptr<Part> model,
                         std::stop_token stop) {
  if (options.functions.empty())
    return bad_input("no reward function is named", "reward.functions=[exact], or others of docs/rewards.md");
  if (!options.weights.empty() && options.weights.size() != options.functions.size())
    return bad_input(fmt::format("reward.weights has {} weights, and reward.functions {} functions",
                                 options.weights.size(), options.functions.size()),
                     "give each function a weight, or leave the weights out");
  if (!report) report = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
  std::vector<Judge::Weighted> parts;
  for (std::size_t i = 0; i < options.functions.size(); ++i) {
    const spec::RewardFunction function = options.functions[i];
    std::unique_ptr<Part> part;
    if (function == spec::RewardFunction::program) {
      if (options.program.empty())
        return bad_input("reward.functions has program, and reward.program is not set",
                         "give the command that judges, as in reward.program='python3 judge.py'");
      part = std::make_unique<ProgramPart>(options, report, stop);
    } else if (function == spec::RewardFunction::code_tests) {
      auto made = make_code_part(options, report, stop);
      if (!made) return made.error();
      part = std::move(*made);
    } else if (function == spec::RewardFunction::model) {
      if (!model)
        return bad_input("reward.functions has model, and there is no reward model", "reward.model=FOLDER names it");
      part = std::move(model);
    } else {
      auto judge = function_of(function, options);
      if (!judge) return judge.error();
      part = std::make_unique<EachAlone>(std::move(*judge), needs_answer(function));
    }
    parts.push_back({name_of(function), options.weights.empty() ? 1 : options.weights[i], std::move(part)});
  }
  return Judge(options, std::move(parts));
}

}  // namespace muster::reward
