#include "data/sample_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "data/answered_text.hpp"
#include "data/token_places.hpp"

namespace muster::data {
namespace {

using Tokens = std::vector<std::int32_t>;
using ByteSpans = std::vector<chat::ChatTemplate::Span>;

// The token that ends a text: the one that the tokenizer calls so, else the first that ends an answer.
std::optional<std::int32_t> end_token_of(const chat::ModelText& text) {
  if (const auto named = text.special_tokens().find("eos_token"); named != text.special_tokens().end())
    if (const auto id = text.tokenizer().find(named->second)) return id;
  if (!text.end_tokens().empty()) return text.end_tokens().front();
  return std::nullopt;
}

std::uint32_t count_of(std::size_t size) { return static_cast<std::uint32_t>(size); }

// Tokens that hold a byte of the spans.
std::vector<TokenSpan> tokens_in(const ByteSpans& spans, const std::vector<TokenPlace>& places) {
  std::vector<TokenSpan> found;
  for (const auto& span : spans) {
    const auto begin = std::ranges::find_if(places, [&](const TokenPlace& place) { return place.end > span.begin; });
    const auto end =
        std::find_if(begin, places.end(), [&](const TokenPlace& place) { return place.begin >= span.end; });
    TokenSpan next{count_of(static_cast<std::size_t>(begin - places.begin())),
                   count_of(static_cast<std::size_t>(end - places.begin()))};
    next.begin = std::max(next.begin, found.empty() ? 1 : found.back().end);
    if (next.begin >= next.end) continue;
    if (!found.empty() && found.back().end == next.begin)
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
                                          spec::TrainedAnswers which) {
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
  return SampleEncoder(text, *end, static_cast<std::size_t>(sequence_length), which);
}

Result<void> SampleEncoder::encode(const TrainingRow& row, EncodedSamples& out) const {
  if (const auto* text = std::get_if<TextRow>(&row)) return encode(DocumentPart{text->text, true, true}, out);
  if (const auto* chat_row = std::get_if<ConversationRow>(&row)) return encode(chat_row->conversation, out);
  auto sample = pair(std::get<PairRow>(row));
  if (!sample) return sample.error();
  add(std::move(*sample), out);
  return {};
}

Result<void> SampleEncoder::encode(const PreferenceRow& row, bool whole, EncodedSamples& out) const {
  const auto tokens = std::visit([this](const auto& given) { return tokens_of(given); }, row);
  if (!tokens) return tokens.error();
  if (tokens->prompt.empty()) return bad_input("the prompt has no tokens, and an answer continues at least one",
                                               "write what is answered");
  if (std::holds_alternative<PreferredMessages>(row)) ++out.conversations;
  if (tokens->prompt.size() >= longest_) {
    ++out.dropped;
    return {};
  }
  const bool cut = tokens->prompt.size() + std::max(tokens->chosen.size(), tokens->rejected.size()) > longest_;
  out.cut += cut ? 1 : 0;
  for (const Tokens* answer : {&tokens->chosen, &tokens->rejected}) {
    Sample sample{tokens->prompt, {}};
    sample.tokens.insert(sample.tokens.end(), answer->begin(), answer->end());
    sample.tokens.resize(std::min(sample.tokens.size(), longest_));
    const bool from_beginning = whole && answer == &tokens->chosen;
    sample.trained.push_back({from_beginning ? 1 : count_of(tokens->prompt.size()), count_of(sample.tokens.size())});
    out.samples.push_back(std::move(sample));
  }
  return {};
}

Result<SampleEncoder::PairTokens> SampleEncoder::tokens_of(const PreferredText& row) const {
  auto prompt = text_->encode(row.prompt);
  if (!prompt) return prompt.error();
  PairTokens made{std::move(*prompt), {}, {}};
  for (const auto& [text, tokens] : {std::pair{&row.chosen, &made.chosen}, {&row.rejected, &made.rejected}}) {
    auto encoded = text_->encode_rendered(*text);
    if (!encoded) return encoded.error();
    *tokens = std::move(*encoded);
    add_end(*tokens);
  }
  return made;
}

// The prompt is what the template writes of it, asking for an answer, as far as both whole conversations begin so: a
// template may put more there than written answers begin with (an opened <think>).
Result<SampleEncoder::PairTokens> SampleEncoder::tokens_of(const PreferredMessages& row) const {
  const auto asked = text_->render(row.prompt);
  if (!asked) return asked.error();
  std::array<std::string, 2> whole;
  std::size_t shared = asked->text.size();
  for (std::size_t i = 0; i < 2; ++i) {
    chat::Conversation conversation = row.prompt;
    conversation.add_generation_prompt = false;
    for (const auto& message : i == 0 ? row.chosen : row.rejected) conversation.messages.push_back(message);
    auto rendered = text_->render(conversation);
    if (!rendered) return rendered.error();
    whole[i] = std::move(rendered->text);
    const auto parting = std::ranges::mismatch(asked->text, whole[i]).in1;
    shared = std::min(shared, static_cast<std::size_t>(parting - asked->text.begin()));
  }
  while (shared > 0 && shared < asked->text.size() && (static_cast<unsigned char>(asked->text[shared]) & 0xC0) == 0x80)
    --shared;
  PairTokens made;
  const std::array<std::string_view, 3> texts{std::string_view(whole[0]).substr(0, shared),
                                              std::string_view(whole[0]).substr(shared),
                                              std::string_view(whole[1]).substr(shared)};
  const std::array<Tokens*, 3> places{&made.prompt, &made.chosen, &made.rejected};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto encoded = text_->encode_rendered(texts[i]);
    if (!encoded) return encoded.error();
    *places[i] = std::move(*encoded);
  }
  if (made.chosen.empty() || made.rejected.empty())
    return bad_input("the chat template writes nothing of an answer",
                     "check its messages: templates may leave some roles and parts out");
  if (made.chosen == made.rejected)
    return bad_input("the chat template writes \"chosen\" and \"rejected\" as the same text, so that neither is preferred",
                     "remove the row");
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
  const auto texts = answered_texts(*text_, conversation, which_);
  if (!texts) return texts.error();
  ++out.conversations;
  if (texts->size() > 1) ++out.split;
  for (const AnsweredText& answered : *texts) {
    auto tokens = text_->encode_rendered(answered.text);
    if (!tokens) return tokens.error();
    const auto places = token_places(text_->tokenizer(), answered.text, *tokens);
    if (!places) return places.error();
    add({std::move(*tokens), tokens_in(answered.answers, *places)}, out);
  }
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
