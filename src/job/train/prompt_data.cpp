#include "job/train/prompt_data.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "data/row_questions.hpp"
#include "job/arithmetic_data.hpp"
#include "job/question_file.hpp"
#include "job/train/episode_rows.hpp"
#include "job/train/reward_text.hpp"
#include "json/json_text.hpp"
#include "sandbox/python_judge.hpp"
#include "spec/codec.hpp"

namespace muster::job {
namespace {

constexpr std::size_t most_problems = 10;

Result<std::vector<data::RowPrompt>> read_prompts(const spec::RunSpec& spec, const chat::ModelText& text) {
  if (spec.environment.type) return read_episodes(spec, source_of_episodes(spec), text);
  if (*spec.data.path != data::arithmetic_name) return data::prompts_of_rows(*spec.data.path, text);
  const auto made = data::arithmetic_questions(arithmetic_settings(spec));
  if (!made) return made.error();
  std::vector<data::RowPrompt> prompts;
  for (const auto& [prompt, answer] : made->training) prompts.push_back({prompt, false, answer, "", ""});
  return prompts;
}

bool compares(spec::RewardFunction function) {
  using enum spec::RewardFunction;
  return function == exact || function == contains || function == numeric || function == math || function == digits;
}

Result<void> check_answers(const std::vector<data::RowPrompt>& prompts, const spec::RewardOptions& reward) {
  const auto judges_by_answer = std::ranges::find_if(reward.functions, compares);
  if (judges_by_answer == reward.functions.end()) return {};
  std::vector<Problem> problems;
  for (const data::RowPrompt& prompt : prompts)
    if (!prompt.answer && problems.size() < most_problems)
      problems.push_back({prompt.where, fmt::format("it has no right answer, and reward.functions={} compares with it",
                                                    spec::write(*judges_by_answer)),
                          R"({"prompt": "12+34=", "answer": "46"})"});
  return problems.empty() ? Result<void>() : to_error(problems);
}

bool has_tests(const data::RowPrompt& prompt) {
  const auto row = parse_json_object(prompt.row, prompt.where);
  const auto has = [&](const char* column) { return row->contains(column) && !row->at(column).empty(); };
  return row && (has("test") || has("tests") || has("test_list"));
}

// Tests run on the machine of the ranks, which is this one.
Result<void> check_code_tests(const std::vector<data::RowPrompt>& prompts, const spec::RewardOptions& reward) {
  if (std::ranges::find(reward.functions, spec::RewardFunction::code_tests) == reward.functions.end()) return {};
  std::vector<Problem> problems;
  for (const data::RowPrompt& prompt : prompts)
    if (!has_tests(prompt) && problems.size() < most_problems)
      problems.push_back({prompt.where, "it has no tests, and reward.functions=code_tests runs them",
                          R"(add "tests": ["assert f(1) == 2"], or "test" with check(candidate) and "entry_point")"});
  if (!problems.empty()) return to_error(problems);
  if (const auto sandbox = sandbox::Sandbox::open(); !sandbox) return sandbox.error();
  if (const auto python = sandbox::find_interpreter(reward.code_python); !python) return python.error();
  return {};
}

Result<data::SampleCounts> count(const std::vector<data::RowPrompt>& prompts, const chat::ModelText& text,
                                 std::int64_t longest) {
  if (auto fits = check_room(prompts, text, longest); !fits) return fits.error();
  data::SampleCounts counts;
  for (const data::RowPrompt& prompt : prompts) {
    const auto tokens = prompt.rendered ? text.encode_rendered(prompt.prompt) : text.encode(prompt.prompt);
    if (!tokens) return tokens.error();
    ++counts.samples;
    counts.tokens += std::ssize(*tokens);
    counts.longest = std::max(counts.longest, std::ssize(*tokens));
  }
  return counts;
}

Result<std::optional<std::filesystem::path>> keep_evaluation(const spec::RunSpec& spec, const chat::ModelText& text,
                                                             const std::filesystem::path& cache) {
  if (!spec.data.eval_path || spec.environment.type) return std::optional<std::filesystem::path>();
  auto prompts = data::prompts_of_rows(*spec.data.eval_path, text);
  if (!prompts) return prompts.error();
  for (data::RowPrompt& prompt : *prompts) {
    if (!prompt.answer)
      return Error{Error::Kind::bad_input,
                   fmt::format("{}: it has no right answer, and data.eval_path is evaluated by exact match", prompt.where),
                   "add \"answer\" to its rows, or leave data.eval_path out"};
    prompt.row.clear();
  }
  auto path = keep_prompts(*prompts, cache);
  if (!path) return path.error();
  return std::optional(std::move(*path));
}

}  // namespace

Result<PromptData> prepare_prompts(const spec::RunSpec& spec, const std::optional<spec::RewardModelChoice>& judge,
                                   const chat::ModelText& text, const std::filesystem::path& cache,
                                   std::int64_t longest) {
  const auto prompts = read_prompts(spec, text);
  if (!prompts) return prompts.error();
  if (spec.environment.type && spec.data.eval_path && spec.environment.evaluations.list.empty())
    return bad_input("data.eval_path is evaluated by exact match, and environment.type judges otherwise",
                     "leave data.eval_path out, or name what its rows are played in, as in environment.evaluations=[{type: math}]");
  if (const auto rewards = spec.reward_options()) {
    if (auto checked = check_answers(*prompts, *rewards); !checked) return checked.error();
    if (auto checked = check_code_tests(*prompts, *rewards); !checked) return checked.error();
  }
  if (judge)
    if (auto checked = check_reward_text(*judge, *prompts); !checked) return checked.error();
  auto counts = count(*prompts, text, longest);
  if (!counts) return counts.error();
  auto path = keep_prompts(*prompts, cache);
  if (!path) return path.error();
  auto questions = keep_evaluation(spec, text, cache);
  if (!questions) return questions.error();
  return PromptData{{std::move(*path), *counts, false}, std::move(*questions)};
}

std::int64_t policy_steps(const spec::PolicyOptions& policy, std::int64_t prompts, std::int64_t batch,
                          std::int64_t epochs) {
  const std::int64_t of_round = policy.answers / policy.group;  // prompts
  const auto updates = [&](std::int64_t asked) { return (asked * policy.group + batch - 1) / batch * policy.iterations; };
  return epochs * (prompts / of_round * updates(of_round) + updates(prompts % of_round));
}

std::int64_t updates_of_round(const spec::PolicyOptions& policy, std::int64_t batch) {
  return (policy.answers + batch - 1) / batch * policy.iterations;
}

std::int64_t steps_of_rounds(const spec::PolicyOptions& policy, std::int64_t prompts, std::int64_t batch,
                             std::int64_t rounds) {
  const std::int64_t of_round = policy.answers / policy.group;  // prompts
  const std::int64_t rounds_of_pass = std::max<std::int64_t>((prompts + of_round - 1) / of_round, 1);
  return policy_steps(policy, prompts, batch, rounds / rounds_of_pass) +
         rounds % rounds_of_pass * updates_of_round(policy, batch);
}

}  // namespace muster::job
