#include "service/conversation.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"
#include "service/generate_job.hpp"

namespace muster::service {
namespace {

constexpr std::size_t longest_line = std::size_t{1} << 20;
constexpr std::string_view where_to_type = "> ";
constexpr std::string_view commands = "/exit or Ctrl-D ends, /reset begins anew";

OrderedJson message(std::string_view role, std::string_view content) { return {{"role", role}, {"content", content}}; }

}  // namespace

Conversation::Conversation(ConversationWish wish, LineOutput output, std::string greeting,
                           std::function<void(const std::string&)> note)
    : wish_(std::move(wish)),
      output_(std::move(output)),
      greeting_(std::move(greeting)),
      note_(std::move(note)),
      lines_(wish_.input, "standard input", longest_line),
      again_(always_readable()) {
  begin_anew();
}

void Conversation::begin_anew() {
  messages_ = OrderedJson::array();
  if (wish_.system) messages_.push_back(message("system", *wish_.system));
}

Result<void> Conversation::prompt() { return wish_.prompting ? output_.append(where_to_type) : Result<void>(); }

Result<std::optional<wire::Request>> Conversation::take(const std::string& line) {
  const std::string_view words = trim(line);
  if (words == "/exit") {
    ended_ = true;
    return std::optional<wire::Request>();
  }
  if (!is_utf8(line)) {
    note_("that line was no UTF-8, and is left out");
  } else if (words == "/reset") {
    begin_anew();
    note_("the conversation begins anew");
  } else if (words == "/help") {
    note_(std::string(commands));
  } else if (!words.empty()) {
    messages_.push_back(message("user", line));
    answering_ = true;
    return std::optional(wire::Request{turn_++, wire::as_line({{"messages", messages_}})});
  }
  if (auto shown = prompt(); !shown) return shown.error();
  return std::optional<wire::Request>();
}

Result<wire::NextRequest> Conversation::next_request(int) {
  while (!ended_) {
    if (answering_) return wire::NextRequest(wire::NotYet{});
    auto next = lines_.next();
    if (!next) return next.error();
    if (std::holds_alternative<NoLineYet>(*next)) return wire::NextRequest(wire::NotYet{});
    if (std::holds_alternative<NoMoreLines>(*next)) {
      ended_ = true;
      if (auto shown = wish_.prompting ? output_.append("\n") : Result<void>(); !shown) return shown.error();
      break;
    }
    auto request = take(std::get<std::string>(*next));
    if (!request) return request.error();
    if (*request) return wire::NextRequest(std::move(**request));
  }
  return wire::NextRequest(wire::EndOfRequests{});
}

// What is typed during an answer waits until the answer is there.
std::optional<int> Conversation::input() {
  if (answering_) return std::nullopt;
  return ended_ || lines_.ready() ? again_.number() : lines_.descriptor();
}

Result<void> Conversation::end_answer(const wire::TaskResult& result) {
  const auto answers = wire::parse_fields<wire::GenerationResult>(result.row, "a result");
  if (!answers) return answers.error();
  if (answers->samples.size() != 1 || !answering_)
    return Error{Error::Kind::failed, "the answer to a turn is not one answer", "report this as a bug of muster"};
  const wire::Answer& answer = answers->samples.front();
  messages_.push_back(message("assistant", answer.text));
  answering_ = false;
  if (auto shown = output_.append("\n"); !shown) return shown;
  if (answer.finish == "length")
    note_(
        fmt::format("the answer was cut after {} tokens; --max-new-tokens N allows longer ones", answer.tokens.size()));
  if (answers->dropped_tokens > 0)
    note_(fmt::format("the conversation is too long: the model no longer sees its first {} tokens; /reset begins anew",
                      answers->dropped_tokens));
  return prompt();
}

Result<void> Conversation::happened(const wire::Event& event) {
  if (std::holds_alternative<wire::Ready>(event.body)) {
    if (wish_.prompting) note_(fmt::format("{}; {}", greeting_, commands));
    return prompt();
  }
  if (const auto* token = std::get_if<wire::Token>(&event.body)) return output_.append(token->text);
  if (const auto* result = std::get_if<wire::TaskResult>(&event.body)) return end_answer(*result);
  return {};
}

Result<int> converse(Host& host, const GeneratePlan& plan, const ConversationWish& wish,
                     const std::function<void(const std::string&)>& note) {
  auto output = LineOutput::open("-");
  if (!output) return output.error();
  Conversation conversation(
      wish, std::move(*output),
      fmt::format("{} on {} in {}", plan.task().model, plan.device, name(plan.plan.workload.weights)), note);
  return run_workers(host, plan.job, conversation, note);
}

}  // namespace muster::service
