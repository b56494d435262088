#include "tokenizer/decoder.hpp"

#include <optional>

#include "base/text.hpp"
#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/limits.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

constexpr int deepest_decoder = 8;

// "<0x41>" → 'A'.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  std::string_view digits = token.substr(3, 2);
  if (digits[0] == '+') digits.remove_prefix(1);  // a sign is ignored
  for (const char c : digits) {
    const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    if (!((lower >= '0' && lower <= '9') || (lower >= 'a' && lower <= 'f'))) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(lower <= '9' ? lower - '0' : lower - 'a' + 10);
  }
  return static_cast<char>(static_cast<unsigned char>(value));
}

std::string_view stripped(const Decoder::Strip& strip, std::string_view token) {
  for (std::size_t i = 0; i < strip.start && token.starts_with(strip.character); ++i)
    token.remove_prefix(strip.character.size());
  for (std::size_t i = 0; i < strip.stop && token.ends_with(strip.character); ++i)
    token.remove_suffix(strip.character.size());
  return token;
}

std::string replaced(const Decoder::Replace& replace, std::string_view token) {
  std::string text;
  for (const Stretch& stretch : replace.pattern.find_all(token)) {
    text +=
        stretch.matches ? std::string_view(replace.content) : token.substr(stretch.begin, stretch.end - stretch.begin);
    check_growth(text.size(), token.size());
  }
  return text;
}

}  // namespace

Decoder Decoder::read(PartReader reader) {
  Decoder decoder;
  decoder.steps_.clear();
  decoder.add(std::move(reader), 0);
  return decoder;
}

void Decoder::add(PartReader reader, int depth) {
  const std::string type = reader.type();
  if (steps_.size() == most_steps) return reader.complain(fmt::format("more than {} steps", most_steps), "use fewer");
  if (type == "Sequence" && depth < deepest_decoder) {
    for (PartReader& part : reader.list("decoders")) add(std::move(part), depth + 1);
  } else if (type == "ByteLevel") {
    for (const std::string_view key : {"add_prefix_space", "trim_offsets", "use_regex"})
      static_cast<void>(reader.boolean(key, true));  // without effect here
    steps_.emplace_back(ByteLevel{});
  } else if (type == "Replace") {
    Pattern pattern = read_pattern(reader.part("pattern"));
    steps_.emplace_back(Replace{std::move(pattern), reader.text("content")});
  } else if (type == "ByteFallback") {
    steps_.emplace_back(ByteFallback{});
  } else if (type == "Fuse") {
    steps_.emplace_back(Fuse{});
  } else if (type == "Strip") {
    Strip strip{reader.character("content"), 0, 0};
    strip.start = static_cast<std::size_t>(reader.number("start", 0, 1'000'000));
    strip.stop = static_cast<std::size_t>(reader.number("stop", 0, 1'000'000));
    steps_.emplace_back(std::move(strip));
  } else if (type == "Metaspace") {
    Metaspace metaspace{reader.character("replacement"), true};
    if (reader.has("prepend_scheme"))
      metaspace.drops_first = reader.choice("prepend_scheme", {"always", "never", "first"}) != 1;
    if (!reader.boolean("add_prefix_space", true) && metaspace.drops_first)
      reader.complain("\"add_prefix_space\" is false and \"prepend_scheme\" is not \"never\"",
                      "write \"prepend_scheme\": \"never\"");
    static_cast<void>(reader.boolean("split", true));
    static_cast<void>(reader.has("str_rep"));
    steps_.emplace_back(std::move(metaspace));
  } else {
    return reader.refuse_type(type, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, Sequence");
  }
  reader.finish();
}

DecoderRun::DecoderRun(const Decoder& decoder) : decoder_(decoder), stages_(decoder.steps().size()) {
  bool fused = false;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    stages_[i].fused = fused;
    const Decoder::Step& step = decoder.steps()[i];
    fused = fused || std::holds_alternative<Decoder::ByteLevel>(step) || std::holds_alternative<Decoder::Fuse>(step);
  }
}

void DecoderRun::push(std::string_view token) {
  given_ += token.size();
  feed(0, token);
}

void DecoderRun::feed(std::size_t stage, std::string_view token) {
  if (stage == stages_.size()) {
    text_ += token;
    written_ += token.size();
    return check_growth(written_, given_);
  }
  check_growth(token.size(), given_);
  std::visit([&](const auto& one) { step(one, stage, token); }, decoder_.steps()[stage]);
}

void DecoderRun::finish() {
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) finish_stage(stage);
}

// What a step held back is passed on; the steps after it are finished after that.
void DecoderRun::finish_stage(std::size_t stage) {
  const Decoder::Step& step = decoder_.steps()[stage];
  const std::string held = std::exchange(stages_[stage].held, {});
  if (const auto* replace = std::get_if<Decoder::Replace>(&step)) {
    if (stages_[stage].fused && stages_[stage].begun) feed(stage + 1, replaced(*replace, held));
  } else if (std::holds_alternative<Decoder::ByteFallback>(step)) {
    if (stages_[stage].fused) {
      const auto byte = fallback_byte(held);
      feed(stage + 1, byte ? with_replacements(std::string(1, *byte)) : held);
    } else {
      stages_[stage].held = held;
      end_bytes(stage);
    }
  } else if (std::holds_alternative<Decoder::ByteLevel>(step)) {
    if (stages_[stage].fused)
      feed(stage + 1, with_replacements(bytes_of(held).value_or(held)));
    else
      feed(stage + 1, with_replacements(held));
  }
}

void DecoderRun::step(const Decoder::ByteLevel&, std::size_t stage, std::string_view token) {
  std::string& held = stages_[stage].held;
  if (stages_[stage].fused) {  // whether it is bytes is known when all of it is
    held += token;
    return;
  }
  if (const auto bytes = bytes_of(token))
    held += *bytes;
  else
    held += token;
  const std::size_t settled = settled_length(held);
  const std::string text = with_replacements(std::string_view(held).substr(0, settled));
  held.erase(0, settled);
  feed(stage + 1, text);
}

void DecoderRun::step(const Decoder::Replace& replace, std::size_t stage, std::string_view token) {
  stages_[stage].begun = true;
  if (stages_[stage].fused)
    stages_[stage].held += token;  // a match may span parts
  else
    feed(stage + 1, replaced(replace, token));
}

// Consecutive bytes are text together, or none of them is: nothing is certain before their end.
void DecoderRun::step(const Decoder::ByteFallback&, std::size_t stage, std::string_view token) {
  if (stages_[stage].fused) {
    stages_[stage].held += token;
    return;
  }
  if (const auto byte = fallback_byte(token)) {
    stages_[stage].held += *byte;
    return;
  }
  end_bytes(stage);
  feed(stage + 1, token);
}

void DecoderRun::end_bytes(std::size_t stage) {
  const std::string bytes = std::exchange(stages_[stage].held, {});
  if (bytes.empty()) return;
  if (is_utf8(bytes)) return feed(stage + 1, bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) feed(stage + 1, "\xEF\xBF\xBD");
}

void DecoderRun::step(const Decoder::Fuse&, std::size_t stage, std::string_view token) { feed(stage + 1, token); }

void DecoderRun::step(const Decoder::Strip& strip, std::size_t stage, std::string_view token) {
  if (stages_[stage].fused)
    strip_part(strip, stage, token);
  else
    feed(stage + 1, stripped(strip, token));
}

// At the front characters are dropped until another one comes; at the end those that may be the last are held back.
void DecoderRun::strip_part(const Decoder::Strip& strip, std::size_t stage, std::string_view part) {
  Stage& state = stages_[stage];
  while (!state.begun && !part.empty()) {
    if (state.dropped < strip.start && part.starts_with(strip.character)) {
      part.remove_prefix(strip.character.size());
      ++state.dropped;
    } else {
      state.begun = true;
    }
  }
  std::string text = std::exchange(state.held, {});
  text += part;
  std::size_t certain = text.size();
  for (std::size_t i = 0; i < strip.stop && std::string_view(text).substr(0, certain).ends_with(strip.character); ++i)
    certain -= strip.character.size();
  state.held = text.substr(certain);
  feed(stage + 1, std::string_view(text).substr(0, certain));
}

void DecoderRun::step(const Decoder::Metaspace& metaspace, std::size_t stage, std::string_view token) {
  const bool first = stages_[stage].fused || !stages_[stage].begun;
  stages_[stage].begun = true;
  std::string text;
  for (std::size_t at = 0; at < token.size();) {
    if (token.substr(at).starts_with(metaspace.mark)) {
      if (!first || !metaspace.drops_first) text += ' ';
      at += metaspace.mark.size();
    } else {
      text += token[at++];
    }
  }
  feed(stage + 1, text);
}

void DecoderRun::step(const Decoder::JoinWithSpaces&, std::size_t stage, std::string_view token) {
  if (std::exchange(stages_[stage].begun, true)) text_ += ' ';
  text_ += token;
}

}  // namespace muster::tokenizer
