#include "data/sample_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

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
