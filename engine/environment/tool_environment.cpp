#include "environment/tool_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.hpp"
#include "environment/tools.hpp"
#include "environment/words.hpp"
#include "environment/written_number.hpp"
#include "json/json_text.hpp"

namespace muster::environment {
namespace {

constexpr double closest_wrong_result = 1e-4;

// A number by its value; other answers where all their words are said, one after another.
bool is_correct(const std::string& answer, const std::string& right) {
  if (const auto number = parse_number<double>(trim(right))) {
    const auto given = answered_number(answer);
    return given && std::abs(*given - *number) < closest_wrong_result;
  }
  std::string line;
  for (const std::string& word : words_of(right)) line += (line.empty() ? "" : " ") + word;
  return !line.empty() && count_phrases(answer, {line}) > 0;
}

struct ToolTask {
  std::vector<Message> messages;
  Toolbox tools;
  std::string right;
  std::vector<std::string> required;
  std::int64_t turns = 1;
  std::string role;  // of a result's message
};

class ToolSession final : public Session {
 public:
  explicit ToolSession(ToolTask task) : task_(std::move(task)) {}

  const std::vector<Message>& messages() const override { return task_.messages; }

  Step step(const std::string& answer) override {
    ++turn_;
    const auto call = tool_call_of(answer);
    if (call && !*call) return final_step(answer);
    Step step;
    if (!call)
      say(step, -0.1, "bad format", fmt::format("{}. A call is written so: {}", call.error().what, call.error().remedy));
    else if (!task_.tools.has((*call)->name))
      say(step, -0.2, "unknown tool", fmt::format("there is no tool \"{}\"", (*call)->name));
    else
      use(step, **call);
    // The last turn is over without an answer.
    if (turn_ == task_.turns && !step.done) {
      step.done = true;
      step.messages.clear();
      *step.reward += *end_early();
    }
    return step;
  }

  std::optional<double> end_early() override { return 0.3 * required_share(); }

 private:
  void say(Step& step, double reward, const char* what, std::string text) const {
    step.reward = reward;
    step.info["call"] = what;
    step.messages.push_back({task_.role, std::move(text)});
  }

  void use(Step& step, const ToolCall& call) {
    const bool is_right = task_.required.empty() || std::ranges::find(task_.required, call.name) != task_.required.end();
    auto result = task_.tools.use(call);
    step.info["tool"] = call.name;
    if (!result) {
      step.reward.reset();
      step.done = true;
      step.info["fault"] = result.error().what;
      return;
    }
    used_.insert(call.name);
    say(step, is_right ? 0.3 : -0.1, is_right ? "right tool" : "wrong tool", std::move(*result));
  }

  Step final_step(const std::string& answer) const {
    const double correct = is_correct(answer, task_.right) ? 1 : 0;
    const double early = 1 - static_cast<double>(turn_) / static_cast<double>(task_.turns);
    Step step;
    step.reward = 0.5 * correct + 0.3 * required_share() + 0.2 * early * correct;
    step.done = true;
    step.solved = correct != 0;
    step.info["correct"] = correct != 0;
    step.info["required_tools_used"] = required_share();
    return step;
  }

  double required_share() const {
    if (task_.required.empty()) return 1;
    const auto used = std::ranges::count_if(task_.required, [&](const std::string& name) { return used_.contains(name); });
    return static_cast<double>(used) / static_cast<double>(task_.required.size());
  }

  ToolTask task_;
  std::set<std::string> used_;
  std::int64_t turn_ = 0;
};

// Where there is a system's message, the tools are told behind it.
void tell_tools(std::vector<Message>& messages, const std::string& description) {
  if (messages.front().role == "system")
    messages.front().content += "\n\n" + description;
  else
    messages.insert(messages.begin(), {"system", description});
}

class ToolEnvironment final : public Environment {
 public:
  ToolEnvironment(const spec::EnvironmentOptions& options, std::optional<ToolSandbox> sandbox)
      : turns_(options.turns), role_(options.tool_role), sandbox_(std::move(sandbox)) {}

  Result<std::unique_ptr<Session>> reset(const std::string& row, std::uint64_t) const override {
    const auto parsed = parse_ordered_json_object(row, "the row");
    if (!parsed) return parsed.error();
    auto messages = question_of(*parsed);
    if (!messages) return messages.error();
    auto tools = Toolbox::of_row(*parsed, sandbox_ ? &*sandbox_ : nullptr);
    if (!tools) return tools.error();
    const auto right = answer_of(*parsed);
    if (!right)
      return bad_input("it has no right answer, and environment.type=tool compares with it",
                       R"({"prompt": "What is 1234 times 5678?", "answer": "7006652", "required_tools": ["calculator"]})");
    std::vector<std::string> required = texts_of(*parsed, "required_tools");
    for (const std::string& name : required)
      if (!tools->has(name))
        return bad_input(fmt::format("its \"required_tools\" names \"{}\", which is not among its tools", name),
                         fmt::format(R"(add it to "tools": ["{}"])", name));
    tell_tools(*messages, tools->description());
    return std::unique_ptr<Session>(std::make_unique<ToolSession>(
        ToolTask{std::move(*messages), std::move(*tools), *right, std::move(required), turns_, role_}));
  }

 private:
  std::int64_t turns_;
  std::string role_;
  std::optional<ToolSandbox> sandbox_;  // absent: no tool that runs programs
};

}  // namespace

Result<std::unique_ptr<Environment>> make_tool_environment(const spec::EnvironmentOptions& options) {
  std::optional<ToolSandbox> programs;
  auto sandbox = sandbox::Sandbox::open();
  auto interpreter = sandbox::find_interpreter(options.code_python);
  if (sandbox && interpreter) {
    sandbox::Limits limits;
    limits.cpu_time = std::chrono::seconds(options.code_seconds);
    limits.wall_time = 5 * limits.cpu_time;
    programs = ToolSandbox{std::move(*sandbox), std::move(*interpreter), limits};
  }
  return std::unique_ptr<Environment>(std::make_unique<ToolEnvironment>(options, std::move(programs)));
}

}  // namespace muster::environment
