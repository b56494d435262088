#include "job/generate/conversation.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/count_of.hpp"
#include "base/text.hpp"
#include "job/generate/generate_job.hpp"
#include "json/fields.hpp"

namespace muster::job {
namespace {

constexpr std::size_t longest_line = std::size_t{1} << 20;
constexpr std::string_view where_to_type = "> ";
constexpr std::string_view commands = "/exit or Ctrl-D ends, /reset starts over, Ctrl-C ends an answer";

OrderedJson message(std::string_view role, std::string_view content) { return {{"role", role}, {"content", content}}; }

}  // namespace

Conversation::Conversation(ConversationRequest wanted, LineOutput output, std::string greeting,
                           std::function<void(const std::string&)> note)
    : wanted_(std::move(wanted)),
      output_(std::move(output)),
      greeting_(std::move(greeting)),
      note_(std::move(note)),
      lines_(wanted_.input, "standard input", longest_line),
      again_(always_readable()) {
  if (wanted_.prompting)
    terminal_ = std::make_unique<TerminalLines>(wanted_.input, std::string(where_to_type), wanted_.history,
                                                [this](std::string_view text) { return output_.append(text); });
  reset();
}

void Conversation::reset() {
  messages_ = OrderedJson::array();
  if (wanted_.system) messages_.push_back(message("system", *wanted_.system));
}

Result<void> Conversation::prompt() { return terminal_ ? terminal_->begin() : Result<void>(); }

Result<std::optional<wire::Request>> Conversation::take(const std::string& line) {
  const std::string_view words = trim(line);
  if (words == "/exit") {
    ended_ = true;
    return std::optional<wire::Request>();
  }
  if (!is_utf8(line)) {
    note_("that line is not UTF-8, and is left out");
  } else if (words == "/reset") {
    reset();
    note_("the conversation starts over");
  } else if (words == "/help") {
    note_(std::string(commands));
  } else if (!words.empty()) {
    messages_.push_back(message("user", line));
    answering_ = true;
    return std::optional(wire::Request{turn_++, as_line({{"messages", messages_}})});
  }
  if (auto shown = prompt(); !shown) return shown.error();
  return std::optional<wire::Request>();
}

Result<NextLine> Conversation::next_line() {
  auto line = terminal_ ? terminal_->next() : lines_.next();
  if (line && terminal_ && terminal_->interrupted()) note_(std::string(commands));
  return line;
}

Result<wire::NextRequest> Conversation::watch_answer() {
  if (terminal_) {
    const auto interrupted = terminal_->interrupted_meanwhile();
    if (!interrupted) return interrupted.error();
    if (*interrupted && !std::exchange(cancelled_, true)) return wire::NextRequest(wire::Cancel{turn_ - 1});
  }
  return wire::NextRequest(wire::NotYet{});
}

Result<wire::NextRequest> Conversation::next_request(int) {
  while (!ended_) {
    if (answering_) return watch_answer();
    auto next = next_line();
    if (!next) return next.error();
    if (std::holds_alternative<NoLineYet>(*next)) return wire::NextRequest(wire::NotYet{});
    if (std::holds_alternative<NoMoreLines>(*next)) {
      ended_ = true;
      break;
    }
    auto request = take(std::get<std::string>(*next));
    if (!request) return request.error();
    if (*request) return wire::NextRequest(std::move(**request));
  }
  if (terminal_) terminal_->give_back();
  return wire::NextRequest(wire::EndOfRequests{});
}

// What is typed during an answer waits until the answer is complete. At a terminal it is searched for Ctrl-C.
std::optional<int> Conversation::input() {
  if (answering_) return terminal_ && !cancelled_ ? std::optional(terminal_->descriptor()) : std::nullopt;
  if (ended_ || (terminal_ ? terminal_->ready() : lines_.ready())) return again_.number();
  return terminal_ ? terminal_->descriptor() : lines_.descriptor();
}

Result<void> Conversation::end_answer(const wire::TaskResult& result) {
  const auto answers = parse_fields<wire::GenerationResult>(result.row, "a result");
  if (!answers) return answers.error();
  if (answers->samples.size() != 1 || !answering_)
    return Error{Error::Kind::failed, "the answer to a turn is not one answer", "report this as a bug of muster"};
  const wire::Answer& answer = answers->samples.front();
  if (answer.error)
    return Error{Error::Kind::failed, *answer.error,
                 "the model's weights or its numbers' range are broken: check where it comes from, and try --dtype "
                 "float32"};
  answering_ = cancelled_ = false;
  // An answer that was cancelled before it began counts as if nothing had been asked.
  if (answer.finish == "cancelled" && trim(answer.text).empty())
    messages_.erase(messages_.size() - 1);
  else
    messages_.push_back(message("assistant", answer.text));
  if (auto shown = output_.append("\n"); !shown) return shown;
  if (answer.finish == "length")
    note_(
        fmt::format("the answer was cut after {}; --max-new-tokens N allows longer ones", count_of(answer.tokens.size(), "token")));
  if (answers->dropped_tokens > 0)
    note_(fmt::format("the conversation is too long: the model no longer sees its first {}; /reset starts over",
                      answers->dropped_tokens == 1 ? "token" : fmt::format("{} tokens", answers->dropped_tokens)));
  return prompt();
}

Result<void> Conversation::on_event(const wire::Event& event) {
  if (std::holds_alternative<wire::Ready>(event.body)) {
    if (terminal_) {
      terminal_->take();
      note_(fmt::format("{}; {}", greeting_, commands));
    }
    return prompt();
  }
  if (const auto* token = std::get_if<wire::Token>(&event.body)) return output_.append(token->text);
  if (const auto* result = std::get_if<wire::TaskResult>(&event.body)) return end_answer(*result);
  return {};
}

Result<int> converse(host::Host& host, const GeneratePlan& plan, const ConversationRequest& wanted,
                     const std::function<void(const std::string&)>& note) {
  auto output = LineOutput::open("-");
  if (!output) return output.error();
  Conversation conversation(
      wanted, std::move(*output),
      fmt::format("{} on {} in {}", plan.task().model.name, plan.device, name(plan.plan.workload.weights)), note);
  return run_workers(host, plan.job, conversation, note);
}

}  // namespace muster::job
