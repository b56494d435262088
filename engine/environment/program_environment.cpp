#include "environment/program_environment.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "environment/server_client.hpp"
#include "json/fields.hpp"
#include "reward/program_command.hpp"

namespace muster::environment {
namespace {

using Lost = EnvironmentProgram::Lost;

Lost lost(std::string what) { return {std::move(what), ""}; }

// What it says to an answer, or at the beginning; a text: what is wrong with it.
std::optional<std::string> read_messages(const Json& answer, std::vector<Message>& messages) {
  const auto list = answer.find("messages");
  if (list == answer.end()) return std::nullopt;
  if (!list->is_array()) return R"("messages" is not a list)";
  for (const Json& item : *list) {
    Message& message = messages.emplace_back();
    const auto role = item.find("role"), content = item.find("content");
    if (!item.is_object() || role == item.end() || content == item.end() || !role->is_string() || !content->is_string())
      return R"(a message is not {"role": text, "content": text})";
    message = {role->get<std::string>(), content->get<std::string>()};
  }
  return std::nullopt;
}

// Absent where it is null: unknown.
std::optional<std::string> read_reward(const Json& answer, std::optional<double>& reward) {
  const auto found = answer.find("reward");
  if (found == answer.end()) return R"("reward" is missing: a number, or null if it cannot tell)";
  if (!found->is_null() && !found->is_number()) return fmt::format("\"reward\" is {}", shown(*found));
  reward = found->is_null() ? std::optional<double>() : found->get<double>();
  if (reward && !std::isfinite(*reward)) return R"("reward" is not finite)";
  return std::nullopt;
}

std::variant<Step, Lost> read_step(const Json& answer) {
  Step step;
  if (auto wrong = read_messages(answer, step.messages)) return lost("answered a step, and " + *wrong);
  if (auto wrong = read_reward(answer, step.reward)) return lost("answered a step, and " + *wrong);
  const auto done = answer.find("done"), info = answer.find("info");
  if (done == answer.end() || !done->is_boolean())
    return lost("answered a step, and \"done\" is neither true nor false");
  step.done = done->get<bool>();
  if (info != answer.end() && info->is_object()) step.info = *info;
  if (step.done) step.messages.clear();
  if (!step.done && step.messages.empty()) return lost("answered a step that is not the last one without messages");
  return step;
}

// What the program itself says went wrong.
std::optional<std::string> failure_of(const Json& answer) {
  const auto failed = answer.find("failed");
  if (failed == answer.end()) return std::nullopt;
  return failed->is_string() ? failed->get<std::string>() : failed->dump();
}

class ProgramSession final : public Session {
 public:
  ProgramSession(EnvironmentProgram& program, std::atomic<std::int64_t>& numbers, std::int64_t attempts,
                 const Report& report, Json row, std::uint64_t seed)
      : program_(program), numbers_(numbers), attempts_(attempts), report_(report), row_(std::move(row)), seed_(seed) {}
  ~ProgramSession() override { close(); }

  Result<void> begin() {
    Lost why;
    for (std::int64_t attempt = 0; attempt < attempts_; ++attempt) {
      auto begun = reset();
      if (!begun) return begun.error();
      if (!*begun) return {};
      why = **begun;
      if (why.is_final) break;
    }
    return Error{Error::Kind::failed, fmt::format("the environment {}", why.what), why.remedy};
  }

  const std::vector<Message>& messages() const override { return messages_; }

  Step step(const std::string& answer) override {
    std::string why;
    for (std::int64_t attempt = 0; attempt < attempts_; ++attempt) {
      auto made = is_open_ ? try_step(answer) : std::variant<Step, Lost>(lost("was started again"));
      if (std::holds_alternative<Lost>(made)) {
        close();
        if (auto again = replay(); again) {
          why = again->what;
          if (again->is_final || is_other_) break;
          continue;
        }
        made = try_step(answer);
      }
      if (auto* step = std::get_if<Step>(&made)) {
        played_.push_back({answer, *step});
        is_open_ = !step->done;
        return std::move(*step);
      }
      const Lost& failure = std::get<Lost>(made);
      why = failure.what;
      close();
      if (failure.is_final) break;
    }
    close();
    Step unknown{.messages = {}, .reward = std::nullopt, .done = true};
    unknown.info["fault"] = "the environment " + why;
    report_(fmt::format("what an episode is worth is unknown: the environment {}", why));
    return unknown;
  }

  std::optional<double> end_early() override {
    if (!is_open_) return 0;
    auto heard = program_.ask({{"session", number_}, {"end", true}}, start_);
    is_open_ = false;
    const auto* answer = std::get_if<EnvironmentProgram::Answer>(&heard);
    std::optional<double> reward;
    if (answer == nullptr || failure_of(answer->object) || read_reward(answer->object, reward)) return std::nullopt;
    return reward;
  }

 private:
  struct Played {
    std::string answer;
    Step step;
  };

  // Begins it in the program as it runs now. An Error: the row is refused.
  Result<std::optional<Lost>> reset() {
    number_ = numbers_++;
    auto heard = program_.ask({{"session", number_}, {"reset", row_}, {"seed", seed_}});
    if (auto* none = std::get_if<Lost>(&heard)) return std::optional(std::move(*none));
    auto& answer = std::get<EnvironmentProgram::Answer>(heard);
    start_ = answer.start;
    if (const auto refused = answer.object.find("refused"); refused != answer.object.end()) {
      const auto remedy = answer.object.find("remedy");
      return bad_input(refused->is_string() ? refused->get<std::string>() : refused->dump(),
                       remedy != answer.object.end() && remedy->is_string()
                           ? remedy->get<std::string>()
                           : "give the row what the environment needs");
    }
    if (auto failure = failure_of(answer.object)) return std::optional(lost("failed: " + *failure));
    std::vector<Message> messages;
    if (auto wrong = read_messages(answer.object, messages))
      return std::optional(lost("answered a reset, and " + *wrong));
    if (messages.empty()) return std::optional(lost("answered a reset without messages"));
    is_open_ = true;
    if (!messages_.empty() && messages_ != messages) return is_other();
    messages_ = std::move(messages);
    return std::optional<Lost>();
  }

  // The same once more, with the answers that there were.
  std::optional<Lost> replay() {
    auto begun = reset();
    if (!begun) return lost("refused its own row: " + begun.error().what);
    if (*begun) return **begun;
    for (const auto& [answer, before] : played_) {
      auto again = try_step(answer);
      if (auto* none = std::get_if<Lost>(&again)) return std::move(*none);
      const Step& step = std::get<Step>(again);
      if (step.messages != before.messages || step.reward != before.reward || step.done != before.done)
        return *is_other();
    }
    return std::nullopt;
  }

  std::variant<Step, Lost> try_step(const std::string& answer) {
    auto heard = program_.ask({{"session", number_}, {"answer", answer}}, start_);
    if (auto* none = std::get_if<Lost>(&heard)) return std::move(*none);
    const Json& object = std::get<EnvironmentProgram::Answer>(heard).object;
    if (auto failure = failure_of(object)) return lost("failed: " + *failure);
    return read_step(object);
  }

  std::optional<Lost> is_other() {
    is_other_ = true;
    return lost("was asked to play the episode again, and with the same row, seed and answers it went differently");
  }

  // The program may forget it.
  void close() {
    if (std::exchange(is_open_, false)) program_.tell({{"session", number_}, {"close", true}}, start_);
  }

  EnvironmentProgram& program_;
  std::atomic<std::int64_t>& numbers_;
  const std::int64_t attempts_;
  const Report& report_;
  const Json row_;
  const std::uint64_t seed_;
  std::int64_t number_ = 0;
  EnvironmentProgram::Start start_ = 0;
  bool is_open_ = false;   // the program knows it
  bool is_other_ = false;  // it cannot be played again
  std::vector<Message> messages_;
  std::vector<Played> played_;
};

class ProgramEnvironment final : public Environment {
 public:
  ProgramEnvironment(EnvironmentProgram::Options options, Report report)
      : attempts_(options.restarts + 1), report_(report), program_(std::move(options), std::move(report)) {}

  Result<std::unique_ptr<Session>> reset(const std::string& row, std::uint64_t seed) const override {
    auto json = parse_ordered_json_object(row, "the row of an episode");
    if (!json) return json.error();
    auto session = std::make_unique<ProgramSession>(program_, sessions_, attempts_, report_, std::move(*json), seed);
    if (auto begun = session->begin(); !begun) return begun.error();
    return std::unique_ptr<Session>(std::move(session));
  }

 private:
  const std::int64_t attempts_;
  const Report report_;
  mutable std::atomic<std::int64_t> sessions_ = 0;  // that were begun, replayed ones among them
  mutable EnvironmentProgram program_;
};

std::chrono::milliseconds span_of(double seconds) {
  return std::chrono::milliseconds(std::llround(std::max(1.0, seconds * 1000)));
}

}  // namespace

Result<std::unique_ptr<Environment>> make_program_environment(const spec::EnvironmentOptions& options, Report report) {
  if (!report) report = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
  EnvironmentProgram::Options program;
  program.restarts = options.program_restarts;
  program.patience = span_of(options.program_seconds);
  if (options.server) {
    auto command = client_command(options);
    if (!command) return command.error();
    program.command = std::move(*command);
    program.name = fmt::format("{} of {}", name_of(options.kind), *options.server);
    // The client keeps to the time itself, and says more than that it has passed.
    program.patience += std::chrono::seconds(10);
  } else {
    if (options.program.empty())
      return bad_input("environment.type is program, and environment.program is not set",
                       "give the command of the environment, as in environment.program='python3 environment.py'");
    program.command = reward::command_of(options.program);
    program.name = reward::shown_command(options.program);
  }
  return std::unique_ptr<Environment>(std::make_unique<ProgramEnvironment>(std::move(program), std::move(report)));
}

}  // namespace muster::environment
