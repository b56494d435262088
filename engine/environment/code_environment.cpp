#include "environment/code_environment.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "environment/row_fields.hpp"
#include "json/json_text.hpp"
#include "reward/code_part.hpp"

namespace muster::environment {
namespace {

struct Judging {
  sandbox::Sandbox sandbox;
  sandbox::Interpreter interpreter;
  sandbox::Limits limits;
};

// The guide's table. A program that runs out of time, memory or output has failed by an error as well.
double worth(const sandbox::Verdict& verdict) {
  const bool is_right = verdict.kind == sandbox::VerdictKind::passed;
  const bool is_error = !is_right && verdict.kind != sandbox::VerdictKind::wrong;
  return static_cast<double>(verdict.passed) / std::max(verdict.total, 1) + (is_right ? 1 : 0) - (is_error ? 0.5 : 0);
}

class CodeSession final : public Session {
 public:
  CodeSession(const Judging& judging, std::vector<Message> messages, reward::Question question, std::int64_t attempts)
      : judging_(judging), messages_(std::move(messages)), question_(std::move(question)), left_(attempts) {}

  const std::vector<Message>& messages() const override { return messages_; }

  // Attempts before the last one earn nothing, so that failing first is no way to earn more.
  Step step(const std::string& answer) override {
    --left_;
    const auto task = reward::code_task({&question_, answer});
    auto verdict = task ? reward::judge_code(judging_.sandbox, judging_.interpreter, *task, judging_.limits)
                        : Result<sandbox::Verdict>(task.error());
    Step step;
    if (!verdict) {
      step.reward.reset();
      step.done = true;
      step.info["fault"] = verdict.error().what;
      return step;
    }
    earned_ = worth(*verdict);
    step.info["verdict"] = to_string(verdict->kind);
    step.info["passed"] = verdict->passed;
    step.info["total"] = verdict->total;
    step.done = verdict->kind == sandbox::VerdictKind::passed || left_ == 0;
    if (step.done) {
      step.solved = verdict->kind == sandbox::VerdictKind::passed;
      step.reward = earned_;
    }
    if (!step.done) step.messages.push_back({"user", reproach(*verdict)});
    return step;
  }

  std::optional<double> end_early() override { return earned_; }

 private:
  static std::string reproach(const sandbox::Verdict& verdict) {
    std::string text = fmt::format("{} of {} tests passed ({}).", verdict.passed, verdict.total, to_string(verdict.kind));
    if (!verdict.detail.empty()) text += "\n" + verdict.detail;
    return text + "\nWrite the whole program again.";
  }

  const Judging& judging_;
  std::vector<Message> messages_;
  reward::Question question_;
  std::int64_t left_;
  double earned_ = 0;
};

class CodeEnvironment final : public Environment {
 public:
  CodeEnvironment(Judging judging, std::int64_t attempts) : judging_(std::move(judging)), attempts_(attempts) {}

  Result<std::unique_ptr<Session>> reset(const std::string& row, std::uint64_t) const override {
    const auto parsed = parse_ordered_json_object(row, "the row");
    if (!parsed) return parsed.error();
    auto messages = question_of(*parsed);
    if (!messages) return messages.error();
    reward::Question question{"", std::nullopt, row};
    if (const auto task = reward::code_task({&question, ""}); !task) return task.error();
    return std::unique_ptr<Session>(
        std::make_unique<CodeSession>(judging_, std::move(*messages), std::move(question), attempts_));
  }

 private:
  Judging judging_;
  std::int64_t attempts_;
};

}  // namespace

Result<std::unique_ptr<Environment>> make_code_environment(const spec::EnvironmentOptions& options) {
  auto sandbox = sandbox::Sandbox::open();
  if (!sandbox) return sandbox.error();
  auto interpreter = sandbox::find_interpreter(options.code_python);
  if (!interpreter) {
    const Error& why = interpreter.error();
    return Error{why.kind, "environment.python: " + why.what, why.remedy};
  }
  sandbox::Limits limits;
  limits.cpu_time = std::chrono::seconds(options.code_seconds);
  limits.wall_time = 5 * limits.cpu_time;
  return std::unique_ptr<Environment>(std::make_unique<CodeEnvironment>(
      Judging{std::move(*sandbox), std::move(*interpreter), limits}, std::min(options.attempts, options.turns)));
}

}  // namespace muster::environment
