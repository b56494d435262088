#include "data/sample_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "data/answered_text.hpp"
#include "data/token_places.hpp"
#include "spec/codec.hpp"

namespace muster::data {
namespace {

using Tokens = std::vector<std::int32_t>;
using Json = nlohmann::ordered_json;

// The token that ends a text: the one that the tokenizer calls so, else the first that ends an answer.
std::optional<std::int32_t> end_token_of(const chat::ModelText& text) {
  if (const auto named = text.special_tokens().find("eos_token"); named != text.special_tokens().end())
    if (const auto id = text.tokenizer().find(named->second)) return id;
  if (!text.end_tokens().empty()) return text.end_tokens().front();
  return std::nullopt;
}

std::uint32_t count_of(std::size_t size) { return static_cast<std::uint32_t>(size); }

// Bytes of a text, and whose words they are.
struct SpokenSpan {
  chat::ChatTemplate::Span bytes;
  Speaker speaker = Speaker::assistant;
};

// In the order of the text.
std::vector<SpokenSpan> spans_of(const AnsweredText& text) {
  std::vector<SpokenSpan> spans;
  for (const auto& span : text.answers) spans.push_back({span, Speaker::assistant});
  for (const auto& span : text.replies) spans.push_back({span, Speaker::others});
  std::ranges::sort(spans, {}, [](const SpokenSpan& span) { return span.bytes.begin; });
  return spans;
}

// Tokens that hold a byte of the spans; one that holds bytes of two is the first one's.
std::vector<TokenSpan> tokens_in(const std::vector<SpokenSpan>& spans, const std::vector<TokenPlace>& places) {
  std::vector<TokenSpan> found;
  for (const auto& [span, speaker] : spans) {
    const auto begin = std::ranges::find_if(places, [&](const TokenPlace& place) { return place.end > span.begin; });
    const auto end =
        std::find_if(begin, places.end(), [&](const TokenPlace& place) { return place.begin >= span.end; });
    TokenSpan next{count_of(static_cast<std::size_t>(begin - places.begin())),
                   count_of(static_cast<std::size_t>(end - places.begin())), speaker};
    next.begin = std::max(next.begin, found.empty() ? 1 : found.back().end);
    if (next.begin >= next.end) continue;
    if (!found.empty() && found.back().end == next.begin && found.back().speaker == speaker)
      found.back().end = next.end;
    else
      found.push_back(next);
  }
  return found;
}

// Keeps the spans below length.
void cut_spans(std::vector<TokenSpan>& spans, std::uint32_t length) {
  std::erase_if(spans, [&](const TokenSpan& span) { return span.begin >= length; });
  if (!spans.empty()) spans.back().end = std::min(spans.back().end, length);
}

}  // namespace

Result<SampleEncoder> SampleEncoder::make(const chat::ModelText& text, std::int64_t sequence_length,
                                          LearntParts parts) {
  if (sequence_length < 2)
    return Error{
        Error::Kind::bad_input,
        fmt::format("training.sequence_length is {}, and a token is trained on from one before it", sequence_length),
        "training.sequence_length=2 or more"};
  const auto end = end_token_of(text);
  if (!end)
    return Error{Error::Kind::bad_input,
                 "the tokenizer names no end-of-sequence token, and training ends texts with it",
                 "name one as \"eos_token\" in tokenizer_config.json"};
  return SampleEncoder(text, *end, static_cast<std::size_t>(sequence_length), parts);
}

Result<void> SampleEncoder::encode(const TrainingRow& row, EncodedSamples& out) const {
  if (const auto* trajectory = std::get_if<TrajectoryRow>(&row)) return encode(*trajectory, out);
  if (parts_.trajectories.chooses())
    return bad_input("the row is not a trajectory, and sft.filter_low_reward and sft.max_trajectories choose among trajectories",
                     R"({"observations", "actions", "rewards"}, as muster collect writes them)");
  if (parts_.mode != spec::SftMode::behavioral_cloning && !std::holds_alternative<ConversationRow>(row))
    return bad_input(fmt::format("the row has nothing that is said to an answer, and sft.mode={} learns that",
                                 spec::write(parts_.mode)),
                     R"(trajectories, as muster collect writes them, or rows of {"messages"})");
  if (const auto* text = std::get_if<TextRow>(&row)) return encode(DocumentPart{text->text, true, true}, out);
  if (const auto* chat_row = std::get_if<ConversationRow>(&row)) return encode(chat_row->conversation, out);
  auto sample = pair(std::get<PairRow>(row));
  if (!sample) return sample.error();
  add(std::move(*sample), out);
  return {};
}

Result<void> SampleEncoder::encode(const PreferenceRow& row, bool whole, EncodedSamples& out) const {
  const auto* texts = std::get_if<PreferredText>(&row);
  const auto* messages = std::get_if<PreferredMessages>(&row);
  const auto tokens = texts ? tokens_of(texts->prompt, {texts->chosen, texts->rejected})
                            : tokens_of(messages->prompt, {messages->chosen, messages->rejected});
  if (!tokens) return tokens.error();
  if (messages && tokens->answers[0] == tokens->answers[1])
    return bad_input("the chat template writes \"chosen\" and \"rejected\" as the same text, so that neither is preferred",
                     "remove the row");
  if (messages) ++out.conversations;
  if (!has_room(*tokens, out)) return {};
  for (const Tokens& answer : tokens->answers) out.samples.push_back(sample_of(tokens->prompt, answer));
  if (whole) out.samples[out.samples.size() - 2].trained.front().begin = 1;
  return {};
}

// Plain texts end with the end token, as they do wherever they are trained on.
Result<Tokens> SampleEncoder::whole_tokens(const std::variant<std::string, chat::Conversation>& whole) const {
  if (const auto* conversation = std::get_if<chat::Conversation>(&whole)) return text_->encode_chat(*conversation);
  auto tokens = text_->encode(std::get<std::string>(whole));
  if (tokens) add_end(*tokens);
  return tokens;
}

Result<void> SampleEncoder::encode(const Comparison& row, EncodedSamples& out) const {
  auto chosen = whole_tokens(row.chosen), rejected = whole_tokens(row.rejected);
  if (!chosen) return chosen.error();
  if (!rejected) return rejected.error();
  const bool in_messages = std::holds_alternative<chat::Conversation>(row.chosen);
  if (*chosen == *rejected)
    return bad_input(in_messages
                         ? "the chat template writes \"chosen\" and \"rejected\" as the same text, so that neither is preferred"
                         : "\"chosen\" and \"rejected\" are the same tokens, so that neither is preferred",
                     "remove the row");
  if (chosen->empty() || rejected->empty())
    return bad_input("the chat template writes nothing of one of the two", "check the messages");
  if (in_messages) ++out.conversations;
  if (std::max(chosen->size(), rejected->size()) > longest_) {
    ++out.dropped;
    return {};
  }
  for (Tokens* tokens : {&*chosen, &*rejected}) {
    Sample& sample = out.samples.emplace_back();
    const std::uint32_t end = count_of(tokens->size());
    tokens->push_back(tokens->back());
    sample.tokens = std::move(*tokens);
    sample.trained = {{end, end + 1}};
  }
  out.samples[out.samples.size() - 2].label = std::bit_cast<std::uint32_t>(row.margin);
  return {};
}

Result<void> SampleEncoder::encode(const JudgedRow& row, EncodedSamples& out) const {
  const auto* text = std::get_if<JudgedText>(&row);
  const auto* messages = std::get_if<JudgedMessages>(&row);
  const auto tokens =
      text ? tokens_of(text->prompt, {text->answer}) : tokens_of(messages->prompt, {messages->answer});
  if (!tokens) return tokens.error();
  if (messages) ++out.conversations;
  if (!has_room(*tokens, out)) return {};
  Sample& sample = out.samples.emplace_back(sample_of(tokens->prompt, tokens->answers.front()));
  sample.label = (text ? text->desired : messages->desired) ? 1 : 0;
  return {};
}

bool SampleEncoder::has_room(const AnsweredPrompt& tokens, EncodedSamples& out) const {
  if (tokens.prompt.size() >= longest_) {
    ++out.dropped;
    return false;
  }
  std::size_t longest = 0;
  for (const Tokens& answer : tokens.answers) longest = std::max(longest, answer.size());
  out.cut += tokens.prompt.size() + longest > longest_ ? 1 : 0;
  return true;
}

Sample SampleEncoder::sample_of(const Tokens& prompt, const Tokens& answer) const {
  Sample sample{prompt, {}};
  sample.tokens.insert(sample.tokens.end(), answer.begin(), answer.end());
  sample.tokens.resize(std::min(sample.tokens.size(), longest_));
  sample.trained.push_back({count_of(prompt.size()), count_of(sample.tokens.size())});
  return sample;
}

Result<SampleEncoder::AnsweredPrompt> SampleEncoder::tokens_of(const std::string& prompt,
                                                               const std::vector<std::string>& answers) const {
  auto before = text_->encode(prompt);
  if (!before) return before.error();
  if (before->empty())
    return bad_input("the prompt has no tokens, and an answer continues at least one", "write what is answered");
  AnsweredPrompt made{std::move(*before), {}};
  for (const std::string& answer : answers) {
    auto encoded = text_->encode_rendered(answer);
    if (!encoded) return encoded.error();
    add_end(*encoded);
    made.answers.push_back(std::move(*encoded));
  }
  return made;
}

// The prompt is what the template writes of it, asking for an answer, as far as all whole conversations begin so: a
// template may put more there than written answers begin with (an opened <think>).
Result<SampleEncoder::AnsweredPrompt> SampleEncoder::tokens_of(
    const chat::Conversation& prompt, const std::vector<nlohmann::ordered_json>& answers) const {
  const auto asked = text_->render(prompt);
  if (!asked) return asked.error();
  std::vector<std::string> whole;
  std::size_t shared = asked->text.size();
  for (const auto& answer : answers) {
    chat::Conversation conversation = prompt;
    conversation.add_generation_prompt = false;
    for (const auto& message : answer) conversation.messages.push_back(message);
    auto rendered = text_->render(conversation);
    if (!rendered) return rendered.error();
    const auto parting = std::ranges::mismatch(asked->text, rendered->text).in1;
    shared = std::min(shared, static_cast<std::size_t>(parting - asked->text.begin()));
    whole.push_back(std::move(rendered->text));
  }
  while (shared > 0 && shared < asked->text.size() && (static_cast<unsigned char>(asked->text[shared]) & 0xC0) == 0x80)
    --shared;
  auto before = text_->encode_rendered(std::string_view(asked->text).substr(0, shared));
  if (!before) return before.error();
  AnsweredPrompt made{std::move(*before), {}};
  for (const std::string& text : whole) {
    auto encoded = text_->encode_rendered(std::string_view(text).substr(shared));
    if (!encoded) return encoded.error();
    if (encoded->empty() || made.prompt.empty())
      return bad_input(fmt::format("the chat template writes nothing of {}", encoded->empty() ? "an answer" : "the prompt"),
                       "check the messages: templates may leave some roles and parts out");
    made.answers.push_back(std::move(*encoded));
  }
  return made;
}

Result<void> SampleEncoder::encode(const DocumentPart& part, EncodedSamples& out) const {
  auto tokens = part_tokens(part);
  if (!tokens) return tokens.error();
  if (part.ends) add_end(*tokens);
  add_text(*tokens, out);
  return {};
}

// With what the tokenizer puts before a text where the document begins, and after it where it ends.
Result<Tokens> SampleEncoder::part_tokens(const DocumentPart& part) const {
  if (!part.begins && !part.ends) return text_->encode_rendered(part.text);
  auto whole = text_->encode(part.text);
  if (!whole || (part.begins && part.ends)) return whole;
  const auto plain = text_->encode_rendered(part.text);
  if (!plain) return plain;
  const auto inner = std::ranges::search(*whole, *plain);
  if (part.begins) return Tokens(whole->begin(), inner.end());
  return Tokens(inner.begin(), whole->end());
}

Result<Sample> SampleEncoder::pair(const PairRow& row) const {
  auto prompt = text_->encode(row.prompt);
  if (!prompt) return prompt.error();
  if (prompt->empty())
    return bad_input("the prompt has no tokens, and a completion continues at least one",
                     "give {\"text\"} in place of prompt and completion");
  const auto completion = text_->encode_rendered(row.completion);
  if (!completion) return completion.error();
  Sample sample{std::move(*prompt), {}};
  const std::uint32_t begin = count_of(sample.tokens.size());
  sample.tokens.insert(sample.tokens.end(), completion->begin(), completion->end());
  if (completion->empty() || completion->back() != end_token_) sample.tokens.push_back(end_token_);
  sample.trained.push_back({begin, count_of(sample.tokens.size())});
  return sample;
}

Result<void> SampleEncoder::encode(const chat::Conversation& conversation, EncodedSamples& out) const {
  const auto texts = learnt_texts(*text_, conversation, parts_.mode, parts_.which);
  if (!texts) return texts.error();
  ++out.conversations;
  if (texts->size() > 1) ++out.split;
  if (texts->empty()) ++out.dropped;
  for (const AnsweredText& answered : *texts) {
    auto tokens = text_->encode_rendered(answered.text);
    if (!tokens) return tokens.error();
    const auto places = token_places(text_->tokenizer(), answered.text, *tokens);
    if (!places) return places.error();
    add({std::move(*tokens), tokens_in(spans_of(answered), *places)}, out);
  }
  return {};
}

Result<void> SampleEncoder::encode(const TrajectoryRow& row, EncodedSamples& out) const {
  if (const auto least = parts_.trajectories.least_reward) {
    if (!row.has_rewards)
      return bad_input("the row has no \"rewards\", and sft.filter_low_reward chooses by them",
                       R"("rewards": [{"value": 1}, …], one for each action)");
    if (!row.reward || *row.reward < *least) {
      ++out.poor;
      return {};
    }
  }
  const std::size_t before = out.samples.size();
  const auto added = text_->has_chat_template() ? encode(row.conversation(), out) : add_pairs(row, out);
  if (!added) return added;
  out.trajectories.push_back(out.samples.size() - before);
  return {};
}

Result<void> SampleEncoder::add_pairs(const TrajectoryRow& row, EncodedSamples& out) const {
  const bool answers = parts_.mode != spec::SftMode::world_model, replies = parts_.mode != spec::SftMode::behavioral_cloning;
  const auto add_pair = [&](PairRow text, Speaker speaker) -> Result<void> {
    auto sample = pair(text);
    if (!sample) return sample.error();
    sample->trained.front().speaker = speaker;
    add(std::move(*sample), out);
    return {};
  };
  for (std::size_t i = 0; i < row.answers.size(); ++i) {
    const Json& content = row.answers[i]["content"];
    if (!content.is_string())
      return bad_input(fmt::format("action {} is not a text, and the model has no chat template that would write it", i + 1),
                       "use a model with a chat template");
    const bool is_learnt = answers && (parts_.which == spec::TrainedAnswers::all || i + 1 == row.answers.size());
    const std::string prompt = row.text_before(i), answer = content.get<std::string>();
    if (is_learnt)
      if (auto added = add_pair({prompt, answer}, Speaker::assistant); !added) return added;
    if (const std::string reply = row.text_after(i); replies && !reply.empty())
      if (auto added = add_pair({prompt + answer + "\n", reply}, Speaker::others); !added) return added;
  }
  ++out.conversations;
  return {};
}

void SampleEncoder::add_end(Tokens& tokens) const {
  if (tokens.empty() || tokens.back() != end_token_) tokens.push_back(end_token_);
}

// Samples share one token, the last of one and the first of the next: so every token but a document's first is
// trained on once, whatever the length of sequences.
void SampleEncoder::add_text(const Tokens& tokens, EncodedSamples& out) const {
  if (tokens.size() < 2) {
    out.dropped += tokens.empty() ? 0 : 1;
    return;
  }
  for (std::size_t at = 0; at + 1 < tokens.size(); at += longest_ - 1) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t length = std::min(longest_, tokens.size() - at);
    out.samples.push_back({Tokens(begin, begin + static_cast<std::ptrdiff_t>(length)), {{1, count_of(length)}}});
  }
}

void SampleEncoder::add(Sample sample, EncodedSamples& out) const {
  const bool too_long = sample.tokens.size() > longest_;
  if (too_long) {
    sample.tokens.resize(longest_);
    cut_spans(sample.trained, count_of(longest_));
  }
  if (sample.trained.empty()) {
    ++out.dropped;
    return;
  }
  out.cut += too_long ? 1 : 0;
  out.samples.push_back(std::move(sample));
}

}  // namespace muster::data
