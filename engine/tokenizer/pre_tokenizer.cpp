#include "tokenizer/pre_tokenizer.hpp"

#include <algorithm>

#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/character_class.hpp"
#include "tokenizer/limits.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

constexpr int deepest_pre_tokenizer = 8;

// Joins each stretch to the one before it where joins(it, the one before) says so.
template <class Joins>
std::vector<Stretch> joined(const std::vector<Stretch>& found, Joins joins) {
  std::vector<Stretch> result;
  bool previous_matches = false;
  for (const Stretch& stretch : found) {
    if (!result.empty() && joins(stretch.matches, previous_matches))
      result.back().end = stretch.end;
    else
      result.push_back({stretch.begin, stretch.end, false});
    previous_matches = stretch.matches;
  }
  return result;
}

std::vector<Stretch> joined_with_next(const std::vector<Stretch>& found) {
  std::vector<Stretch> result;
  bool next_matches = false;
  for (auto stretch = found.rbegin(); stretch != found.rend(); ++stretch) {
    if (!result.empty() && stretch->matches && !next_matches)
      result.back().begin = stretch->begin;
    else
      result.push_back({stretch->begin, stretch->end, false});
    next_matches = stretch->matches;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

// Stretches of characters of a kind, one for each of them.
template <class Belongs>
std::vector<Stretch> find_characters(std::string_view text, Belongs belongs) {
  std::vector<Stretch> stretches;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (!belongs(next_code_point(text, at))) continue;
    if (begin > done) stretches.push_back({done, begin, false});
    stretches.push_back({begin, at, true});
    done = at;
  }
  if (done < text.size()) stretches.push_back({done, text.size(), false});
  return stretches;
}

OwnedSection with_prefix(Section section, std::string_view prefix) {
  return {std::string(prefix) + std::string(section.text), section.head == 0 ? 0 : section.head + prefix.size()};
}

}  // namespace

std::vector<Stretch> split_stretches(std::vector<Stretch> found, SplitBehaviour behaviour) {
  switch (behaviour) {
    case SplitBehaviour::removed:
      std::erase_if(found, [](const Stretch& stretch) { return stretch.matches; });
      return found;
    case SplitBehaviour::isolated:
      return found;
    case SplitBehaviour::merged_with_previous:
      return joined(found, [](bool matches, bool previous) { return matches && !previous; });
    case SplitBehaviour::merged_with_next:
      return joined_with_next(found);
    case SplitBehaviour::contiguous:
      return joined(found, [](bool matches, bool previous) { return matches == previous; });
  }
  return found;
}

PreTokenizer PreTokenizer::read(PartReader reader) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add(std::move(reader), 0);
  pre_tokenizer.note_only_known_split();
  return pre_tokenizer;
}

void PreTokenizer::add(PartReader reader, int depth) {
  const std::string type = reader.type();
  if (steps_.size() == most_steps) return reader.complain(fmt::format("more than {} steps", most_steps), "use fewer");
  if (type == "Sequence" && depth < deepest_pre_tokenizer) {
    for (PartReader& part : reader.list("pretokenizers")) add(std::move(part), depth + 1);
  } else if (type == "Split") {
    add_split(reader);
  } else if (type == "ByteLevel") {
    const bool prefix_space = reader.boolean("add_prefix_space");
    static_cast<void>(reader.boolean("trim_offsets"));  // concerns offsets, which nobody asks for
    steps_.emplace_back(ByteLevel{prefix_space, reader.boolean("use_regex", true)});
  } else if (type == "Digits") {
    steps_.emplace_back(Digits{reader.boolean("individual_digits")});
  } else if (type == "Metaspace") {
    add_metaspace(reader);
  } else {
    return reader.refuse_type(type, "ByteLevel, Split, Digits, Metaspace, Sequence");
  }
  reader.finish();
}

void PreTokenizer::add_split(PartReader& reader) {
  Split split;
  PartReader pattern = reader.part("pattern");
  if (pattern.has("Regex")) split.known = known_split(pattern.text("Regex"));
  split.pattern = read_pattern(std::move(pattern));
  split.behaviour = static_cast<SplitBehaviour>(
      reader.choice("behavior", {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}));
  split.inverted = reader.boolean("invert");
  if (split.behaviour != SplitBehaviour::isolated) split.known = std::nullopt;
  steps_.emplace_back(std::move(split));
}

void PreTokenizer::add_metaspace(PartReader& reader) {
  Metaspace metaspace{reader.character("replacement"), PrependScheme::always, reader.boolean("split", true)};
  if (reader.has("prepend_scheme"))
    metaspace.scheme = static_cast<PrependScheme>(reader.choice("prepend_scheme", {"always", "never", "first"}));
  // The older spelling; where both stand they must agree.
  if (!reader.boolean("add_prefix_space", true) && metaspace.scheme != PrependScheme::never)
    reader.complain("\"add_prefix_space\" is false and \"prepend_scheme\" is not \"never\"",
                    "write \"prepend_scheme\": \"never\"");
  static_cast<void>(reader.has("str_rep"));  // "replacement" again
  steps_.emplace_back(std::move(metaspace));
}

bool PreTokenizer::gives_bytes() const { return !steps_.empty() && std::holds_alternative<ByteLevel>(steps_.back()); }

void PreTokenizer::note_only_known_split() {
  if (!gives_bytes() || steps_.size() > 2) return;
  const auto& level = std::get<ByteLevel>(steps_.back());
  if (level.prefix_space) return;
  if (steps_.size() == 1 && level.splits) only_known_split_ = KnownSplit::gpt2;
  if (const auto* split = std::get_if<Split>(&steps_.front()); steps_.size() == 2 && split != nullptr && !level.splits)
    only_known_split_ = split->known;
}

void PreTokenizer::run(std::size_t step, Section section, const Word& word) const {
  if (section.text.empty()) return;
  if (step == steps_.size()) return word(section.text);
  std::visit([&](const auto& one) { cut(one, step + 1, section, word); }, steps_[step]);
}

void PreTokenizer::cut_stretches(std::vector<Stretch> found, SplitBehaviour behaviour, std::size_t next,
                                 Section section, const Word& word) const {
  for (const Stretch& stretch : split_stretches(std::move(found), behaviour))
    run(next, section.part(stretch.begin, stretch.end), word);
}

void PreTokenizer::cut(const Split& split, std::size_t next, Section section, const Word& word) const {
  if (split.known) {
    for (std::size_t at = 0; at < section.text.size();) {
      const std::size_t end = end_of_word(*split.known, section.text, at);
      run(next, section.part(at, end), word);
      at = end;
    }
    return;
  }
  auto found = split.pattern.find_all(section.text);
  if (split.inverted)
    for (Stretch& stretch : found) stretch.matches = !stretch.matches;
  cut_stretches(std::move(found), split.behaviour, next, section, word);
}

void PreTokenizer::cut(const ByteLevel& level, std::size_t next, Section section, const Word& word) const {
  OwnedSection prefixed;
  if (level.prefix_space && !section.text.starts_with(' ')) {
    prefixed = with_prefix(section, " ");
    section = prefixed.view();
  }
  const auto hand_on = [&](Section part) {
    if (next == steps_.size()) return word(part.text);  // bytes; the model knows them
    const OwnedSection written{in_byte_alphabet(part.text), in_byte_alphabet(part.text.substr(0, part.head)).size()};
    run(next, written.view(), word);
  };
  if (!level.splits) return hand_on(section);
  for (std::size_t at = 0; at < section.text.size();) {
    const std::size_t end = end_of_word(KnownSplit::gpt2, section.text, at);
    hand_on(section.part(at, end));
    at = end;
  }
}

void PreTokenizer::cut(const Digits& digits, std::size_t next, Section section, const Word& word) const {
  auto found = find_characters(section.text, [](char32_t point) {
    return point < 0x80 ? point >= '0' && point <= '9' : holds(tables::numeric, point);
  });
  cut_stretches(std::move(found), digits.single ? SplitBehaviour::isolated : SplitBehaviour::contiguous, next, section,
                word);
}

void PreTokenizer::cut(const Metaspace& metaspace, std::size_t next, Section section, const Word& word) const {
  OwnedSection marked{{}, 0};
  for (std::size_t i = 0; i < section.text.size(); ++i) {
    if (section.text[i] == ' ')
      marked.text += metaspace.mark;
    else
      marked.text += section.text[i];
    if (i + 1 == section.head) marked.head = marked.text.size();
  }
  const bool wanted =
      metaspace.scheme == PrependScheme::always || (metaspace.scheme == PrependScheme::first && section.head > 0);
  if (wanted && !marked.text.starts_with(metaspace.mark)) marked = with_prefix(marked.view(), metaspace.mark);
  if (!metaspace.splits) return run(next, marked.view(), word);
  std::size_t mark_at = 0;
  const char32_t mark = next_code_point(metaspace.mark, mark_at);
  cut_stretches(find_characters(marked.text, [&](char32_t point) { return point == mark; }),
                SplitBehaviour::merged_with_next, next, marked.view(), word);
}

}  // namespace muster::tokenizer
