#include "data/answered_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "base/text.hpp"

namespace muster::data {
namespace {

using Json = nlohmann::ordered_json;
using Span = chat::ChatTemplate::Span;

constexpr const char* marks_or_last =
    "use a chat template with {% generation %} around what the assistant writes, or data.train_on=last";

// Whether the template itself marks what the assistant writes, as transformers detects it.
bool marks_answers(std::string_view source) {
  for (std::size_t at = 0; (at = source.find("{%", at)) != std::string_view::npos; at += 2) {
    std::string_view tag = source.substr(at + 2, source.find("%}", at) - at - 2);
    if (tag.starts_with('-')) tag.remove_prefix(1);
    if (tag.ends_with('-')) tag.remove_suffix(1);
    if (trim(tag) == "generation") return true;
  }
  return false;
}

// Where the assistant's messages are.
std::vector<std::size_t> answer_places(const Json& messages) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (messages[i].value("role", "") == "assistant") places.push_back(i);
  return places;
}

// The beginning of a conversation: its first messages.
chat::Conversation beginning(const chat::Conversation& whole, std::size_t count) {
  chat::Conversation part = whole;
  const auto end = part.messages.begin() + static_cast<std::ptrdiff_t>(count);
  part.messages.erase(end, part.messages.end());
  return part;
}

Result<std::string> render_beginning(const chat::ModelText& text, const chat::Conversation& whole, std::size_t count,
                                     bool asks) {
  chat::Conversation part = beginning(whole, count);
  part.add_generation_prompt = asks;
  auto rendered = text.render(part);
  if (rendered) return std::move(rendered->text);
  return bad_input(fmt::format("the chat template does not take the first {} alone, by which answers are found: {}",
                               count == 1 ? "message" : fmt::format("{} messages", count), rendered.error().what),
                   marks_or_last);
}

// Where in `rendered`, which ends with the answer at `place`, that answer begins. Usually after the generation prompt.
// A template may put more there than written answers begin with (an opened <think>): then where the two part.
Result<std::size_t> answer_begin(const chat::ModelText& text, const chat::Conversation& whole, std::size_t place,
                                 const std::string& rendered) {
  if (place == 0)
    return bad_input("the first message is the assistant's, so that nothing says where its answer begins",
                     "begin with a message of the system or the user");
  const auto asked = render_beginning(text, whole, place, true);
  if (!asked) return asked.error();
  if (rendered.starts_with(*asked)) return asked->size();
  const auto before = render_beginning(text, whole, place, false);
  if (!before) return before.error();
  if (!rendered.starts_with(*before) || !asked->starts_with(*before))
    return bad_input(
        fmt::format("the chat template writes the messages before message {}, the assistant's, differently "
                    "without it, so that the answer's beginning is not clear",
                    place + 1),
        "use a chat template with {% generation %} around what the assistant writes");
  const auto parting = std::ranges::mismatch(rendered, *asked).in1;
  return static_cast<std::size_t>(parting - rendered.begin());
}

// Everything up to the answer at `place`, which is its end.
Result<AnsweredText> text_of_answer(const chat::ModelText& text, const chat::Conversation& whole, std::size_t place) {
  auto rendered = render_beginning(text, whole, place + 1, false);
  if (!rendered) return rendered.error();
  const auto begin = answer_begin(text, whole, place, *rendered);
  if (!begin) return begin.error();
  const Span answer{*begin, rendered->size()};
  return AnsweredText{std::move(*rendered), {answer}};
}

Result<std::vector<AnsweredText>> every_answer(const chat::ModelText& text, const chat::Conversation& whole,
                                               const std::vector<std::size_t>& places) {
  std::vector<AnsweredText> each;
  for (const std::size_t place : places) {
    auto one = text_of_answer(text, whole, place);
    if (!one) return one.error();
    each.push_back(std::move(*one));
  }
  auto rendered = render_beginning(text, whole, whole.messages.size(), false);
  if (!rendered) return rendered.error();
  AnsweredText joined{std::move(*rendered), {}};
  for (const AnsweredText& one : each) {
    if (!joined.text.starts_with(one.text)) return each;
    joined.answers.push_back(one.answers.front());
  }
  return std::vector{std::move(joined)};
}

// The part of what a template marks that belongs to the last answer.
Result<AnsweredText> last_marked(const chat::ModelText& text, const chat::Conversation& whole, std::size_t place) {
  auto rendered = text.render(beginning(whole, place + 1));
  if (!rendered) return rendered.error();
  std::size_t first = 0;
  if (place > 0) {
    const auto before = render_beginning(text, whole, place, false);
    if (!before) return before.error();
    if (!rendered->text.starts_with(*before))
      return bad_input(
          "the chat template writes the messages before the last answer differently without it, so that its marks "
          "cannot be told apart",
          "data.train_on=all");
    first = before->size();
  }
  std::erase_if(rendered->generated, [&](const Span& span) { return span.begin < first; });
  return AnsweredText{std::move(rendered->text), std::move(rendered->generated)};
}

// What the template writes after the answer before message `begin`, whatever that answer is: a template may write one that is
// replied to in another way (Qwen 3 drops its reasoning), so that another stands in its place. Absent: it follows from the answer.
std::optional<std::string> written_after_answer(const chat::ModelText& text, const chat::Conversation& whole, std::size_t begin,
                                                std::size_t end) {
  constexpr std::string_view stand_in = "PLACEOFTHEANSWER";
  chat::Conversation other = whole;
  other.messages[begin - 1] = {{"role", "assistant"}, {"content", stand_in}};
  std::array<std::string, 2> ends;  // of the answer, and of the reply
  for (std::size_t i = 0; i < 2; ++i) {
    const auto rendered = render_beginning(text, other, i == 0 ? begin : end, false);
    const std::size_t place = rendered ? rendered->rfind(stand_in) : std::string::npos;
    if (place == std::string::npos) return std::nullopt;
    ends[i] = rendered->substr(place + stand_in.size());
  }
  return ends[1].starts_with(ends[0]) ? std::optional(ends[1].substr(ends[0].size())) : std::nullopt;
}

// Everything up to the messages from `begin` to `end`, which others say to an answer, and they are its end.
Result<AnsweredText> text_of_reply(const chat::ModelText& text, const chat::Conversation& whole, std::size_t begin,
                                   std::size_t end) {
  const auto before = render_beginning(text, whole, begin, false);
  if (!before) return before.error();
  auto rendered = render_beginning(text, whole, end, false);
  if (!rendered) return rendered.error();
  std::size_t length = rendered->size() - std::min(before->size(), rendered->size());
  if (!rendered->starts_with(*before)) {
    const auto written = written_after_answer(text, whole, begin, end);
    length = written && rendered->ends_with(*written) ? written->size() : 0;
  }
  if (length == 0)
    return bad_input(fmt::format("the chat template writes the answer before message {} differently once it is replied to, or "
                                 "nothing of the reply, so that the reply's beginning is not clear",
                                 begin + 1),
                     "sft.mode=behavioral_cloning learns answers alone");
  const Span reply{rendered->size() - length, rendered->size()};
  return AnsweredText{std::move(*rendered), {}, {reply}};
}

Result<std::vector<AnsweredText>> every_reply(const chat::ModelText& text, const chat::Conversation& whole) {
  std::vector<AnsweredText> each;
  const std::size_t count = whole.messages.size();
  for (const std::size_t place : answer_places(whole.messages)) {
    std::size_t end = place + 1;
    while (end < count && whole.messages[end].value("role", "") != "assistant") ++end;
    if (end == place + 1) continue;
    auto one = text_of_reply(text, whole, place + 1, end);
    if (!one) return one.error();
    each.push_back(std::move(*one));
  }
  return each;
}

}  // namespace

Result<std::vector<AnsweredText>> answered_texts(const chat::ModelText& text, const chat::Conversation& conversation,
                                                 spec::TrainedAnswers which) {
  const auto chat_template = text.chat_template(conversation);
  if (!chat_template) return chat_template.error();
  const std::vector<std::size_t> places = answer_places(conversation.messages);
  if (places.empty())
    return bad_input("no message is the assistant's, so that there is nothing to train on",
                     R"(add what is to be learnt: {"role": "assistant", "content": "…"})");
  const bool marked = marks_answers(chat_template->source());
  if (which == spec::TrainedAnswers::last) {
    auto last = marked ? last_marked(text, conversation, places.back())
                       : text_of_answer(text, conversation, places.back());
    if (!last) return last.error();
    return std::vector{std::move(*last)};
  }
  if (!marked) return every_answer(text, conversation, places);
  auto rendered = text.render(conversation);
  if (!rendered) return rendered.error();
  return std::vector{AnsweredText{std::move(rendered->text), std::move(rendered->generated)}};
}

Result<std::vector<AnsweredText>> learnt_texts(const chat::ModelText& text, const chat::Conversation& conversation,
                                               spec::SftMode mode, spec::TrainedAnswers which) {
  std::vector<AnsweredText> answers;
  if (mode != spec::SftMode::world_model) {
    auto found = answered_texts(text, conversation, which);
    if (!found || mode == spec::SftMode::behavioral_cloning) return found;
    answers = std::move(*found);
  }
  auto replies = every_reply(text, conversation);
  if (!replies) return replies.error();
  if (replies->empty()) return answers;
  auto rendered = render_beginning(text, conversation, conversation.messages.size(), false);
  if (!rendered) return rendered.error();
  const bool is_one = (answers.empty() || (answers.size() == 1 && answers.front().text == *rendered)) &&
                      std::ranges::all_of(*replies, [&](const AnsweredText& reply) { return rendered->starts_with(reply.text); });
  if (!is_one) {
    std::ranges::move(*replies, std::back_inserter(answers));
    return answers;
  }
  AnsweredText joined{std::move(*rendered), {}, {}};
  if (!answers.empty()) joined.answers = std::move(answers.front().answers);
  for (const AnsweredText& reply : *replies) joined.replies.push_back(reply.replies.front());
  return std::vector{std::move(joined)};
}

}  // namespace muster::data
