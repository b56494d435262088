#include "reward/code_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "json/json_text.hpp"
#include "system/allotted_cores.hpp"

namespace muster::reward {
namespace {

using nlohmann::json;

// How often a judgement that failed by itself is tried.
constexpr int attempts = 3;

// The last fenced block, also one that was cut off; without any, the whole text.
std::string code_of(const std::string& completion) {
  std::vector<std::size_t> fences;
  for (std::size_t at = completion.find("```"); at != std::string::npos; at = completion.find("```", at + 3))
    fences.push_back(at);
  if (fences.empty()) return completion;
  const bool is_cut = fences.size() % 2 == 1;
  const std::size_t open = is_cut ? fences.back() : fences[fences.size() - 2];
  const std::size_t close = is_cut ? completion.size() : fences.back();
  const std::size_t begin = std::min(completion.find('\n', open), close);
  return completion.substr(begin, close - begin);
}

bool defines(const std::string& code, const std::string& function) {
  const std::string start = "def " + function + "(";
  return code.starts_with(start) || code.find("\n" + start) != std::string::npos;
}

// A text, or a list of texts as lines; empty where the row has none.
std::string lines_of(const json& row, const char* column) {
  const auto found = row.find(column);
  if (found == row.end() || found->is_null()) return "";
  if (found->is_string()) return found->get<std::string>() + "\n";
  std::string text;
  if (found->is_array())
    for (const json& line : *found)
      if (line.is_string()) text += line.get<std::string>() + "\n";
  return text;
}

class CodePart final : public Part {
 public:
  CodePart(const spec::RewardOptions& options, sandbox::Sandbox sandbox, sandbox::Interpreter interpreter,
           Report report, std::stop_token stop)
      : sandbox_(sandbox),
        interpreter_(std::move(interpreter)),
        scoring_(options.code_scoring),
        report_(std::move(report)),
        stop_(std::move(stop)) {
    limits_.cpu_time = std::chrono::seconds(options.code_seconds);
    limits_.wall_time = 5 * limits_.cpu_time;
    at_once_ = options.code_at_once ? *options.code_at_once : allotted_cores();
  }

  Result<std::vector<std::optional<double>>> judge(std::span<const Answered> answers) override {
    std::vector<CodeTask> tasks;
    for (const Answered& answered : answers) {
      auto task = code_task(answered);
      if (!task) return task.error();
      tasks.push_back(std::move(*task));
    }
    std::vector<std::optional<double>> values(tasks.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < tasks.size() && !stop_.stop_requested(); i = next++)
        values[i] = judge_one(tasks[i]);
    };
    std::vector<std::jthread> workers;
    const std::size_t count = std::min(tasks.size(), static_cast<std::size_t>(std::max<std::int64_t>(at_once_, 1)));
    for (std::size_t i = 0; i < count; ++i) workers.emplace_back(work);
    workers.clear();
    if (stop_.stop_requested()) return stopped_judging();
    return values;
  }

 private:
  std::optional<double> judge_one(const CodeTask& task) {
    const auto verdict = judge_code(sandbox_, interpreter_, task, limits_);
    if (verdict && scoring_ == spec::CodeScoring::all) return verdict->kind == sandbox::VerdictKind::passed ? 1 : 0;
    if (verdict) return static_cast<double>(verdict->passed) / verdict->total;
    const std::lock_guard lock(mutex_);
    report_(fmt::format("no reward for a program: {}", to_string(verdict.error())));
    return std::nullopt;
  }

  sandbox::Sandbox sandbox_;
  sandbox::Interpreter interpreter_;
  sandbox::Limits limits_;
  spec::CodeScoring scoring_;
  std::int64_t at_once_ = 1;
  Report report_;
  std::stop_token stop_;
  std::mutex mutex_;
};

}  // namespace

Result<CodeTask> code_task(const Answered& answered) {
  const auto row = parse_json_object(answered.question->row.empty() ? "{}" : answered.question->row, "the row of a prompt");
  if (!row) return row.error();
  CodeTask task;
  for (const char* column : {"test", "tests", "test_list"})
    if (task.tests.empty()) task.tests = lines_of(*row, column);
  if (task.tests.empty())
    return bad_input("a row has no tests", "give each row a column test (with check(candidate), as HumanEval has it), or "
                                           "tests: a list of assert lines");
  task.tests = lines_of(*row, "test_imports") + lines_of(*row, "test_setup_code") + task.tests;
  if (const auto entry = row->find("entry_point"); entry != row->end() && entry->is_string())
    task.entry_point = entry->get<std::string>();
  const auto prompt = row->find("prompt");
  if (!task.entry_point.empty() && prompt != row->end() && prompt->is_string() &&
      defines(prompt->get<std::string>(), task.entry_point))
    task.given = prompt->get<std::string>();
  // A model that was asked in words writes the whole function; one that continues code, only its rest.
  const std::string code = code_of(answered.completion);
  if (task.given.empty())
    task.program = code;
  else if (defines(code, task.entry_point))
    task.program = task.given + "\n    pass\n\n" + code;
  else
    task.program = task.given + code;
  return task;
}

Result<sandbox::Verdict> judge_code(const sandbox::Sandbox& sandbox, const sandbox::Interpreter& interpreter,
                                    const CodeTask& task, const sandbox::Limits& limits) {
  for (int attempt = 1;; ++attempt) {
    auto verdict = judge_python(sandbox, interpreter, {task.program, task.tests, task.entry_point, task.given}, limits);
    if (verdict || attempt == attempts) return verdict;
  }
}

Result<std::unique_ptr<Part>> make_code_part(const spec::RewardOptions& options, Report report,
                                             std::stop_token stop) {
  const auto sandbox = sandbox::Sandbox::open();
  if (!sandbox) return sandbox.error();
  auto interpreter = sandbox::find_interpreter(options.code_python);
  if (!interpreter) return interpreter.error();
  return std::unique_ptr<Part>(
      std::make_unique<CodePart>(options, *sandbox, std::move(*interpreter), std::move(report), std::move(stop)));
}

}  // namespace muster::reward
