#include "environment/math_environment.hpp"

#include <cmath>

#include "base/text.hpp"
#include "environment/row_fields.hpp"
#include "environment/written_number.hpp"
#include "json/json_text.hpp"

namespace muster::environment {
namespace {

constexpr double closest_wrong = 1e-4;

// Two lines at least that compute something.
bool shows_steps(const std::string& answer) {
  int steps = 0;
  for (const std::string& line : split(answer, '\n'))
    if (line.find('=') != std::string::npos && last_written_number(line)) ++steps;
  return steps >= 2;
}

class MathSession final : public Session {
 public:
  MathSession(std::vector<Message> messages, double right, bool steps_count)
      : messages_(std::move(messages)), right_(right), steps_count_(steps_count) {}

  const std::vector<Message>& messages() const override { return messages_; }

  Step step(const std::string& answer) override {
    const auto given = answered_number(answer);
    const bool is_right = given && std::abs(*given - right_) < closest_wrong;
    const bool is_rewarded = steps_count_ && shows_steps(answer);
    Step step;
    step.reward = (is_right ? 1 : 0) - (given ? 0 : 0.3) + (is_rewarded ? 0.2 : 0);
    step.done = true;
    step.solved = is_right;
    step.info["correct"] = is_right;
    step.info["number"] = given ? Row(*given) : Row(nullptr);
    if (steps_count_) step.info["steps"] = is_rewarded;
    return step;
  }

 private:
  std::vector<Message> messages_;
  double right_;
  bool steps_count_;
};

class MathEnvironment final : public Environment {
 public:
  explicit MathEnvironment(bool steps_count) : steps_count_(steps_count) {}

  Result<std::unique_ptr<Session>> reset(const std::string& row, std::uint64_t) const override {
    const auto parsed = parse_ordered_json_object(row, "the row");
    if (!parsed) return parsed.error();
    auto messages = question_of(*parsed);
    if (!messages) return messages.error();
    const auto answer = answer_of(*parsed);
    const auto right = answer ? answered_number(*answer) : std::nullopt;
    if (!right)
      return bad_input(answer ? "its right answer has no number, and environment.type=math compares numbers"
                              : "it has no right answer, and environment.type=math compares with it",
                       R"({"prompt": "What is 6 times 7?", "answer": "42"}, or reward.functions=math for other answers)");
    return std::unique_ptr<Session>(std::make_unique<MathSession>(std::move(*messages), *right, steps_count_));
  }

 private:
  bool steps_count_;
};

}  // namespace

Result<std::unique_ptr<Environment>> make_math_environment(const spec::EnvironmentOptions& options) {
  return std::unique_ptr<Environment>(std::make_unique<MathEnvironment>(options.steps_count));
}

}  // namespace muster::environment
