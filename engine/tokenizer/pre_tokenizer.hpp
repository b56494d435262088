// "pre_tokenizer": how a section is cut into the words that the model sees one by one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tokenizer/known_split.hpp"
#include "tokenizer/part_reader.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/section.hpp"

namespace muster::tokenizer {

// What becomes of a stretch that matches.
enum class SplitBehaviour { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// The stretches of a text that follow from its matches, without those that are removed.
std::vector<Stretch> split_stretches(std::vector<Stretch> found, SplitBehaviour behaviour);

enum class PrependScheme { always, never, first };

class PreTokenizer {
 public:
  PreTokenizer() = default;  // the whole section is one word
  static PreTokenizer read(PartReader reader);

  // Whether words are bytes, each of which the model knows as a character of the byte alphabet; else they are text.
  bool gives_bytes() const;

  // Calls word(std::string_view) for each word, in order. The text of a word lives until the call returns.
  template <class Word>
  void split(Section section, Word&& word) const {
    if (const auto known = only_known_split()) {
      for (std::size_t at = 0; at < section.text.size();) {
        const std::size_t end = end_of_word(*known, section.text, at);
        word(section.text.substr(at, end - at));
        at = end;
      }
      return;
    }
    run(0, section, std::ref(word));
  }

 private:
  struct Split {
    std::optional<KnownSplit> known;  // where it is, it stands for the pattern
    Pattern pattern;
    SplitBehaviour behaviour = SplitBehaviour::isolated;
    bool inverted = false;
  };
  struct ByteLevel {
    bool prefix_space, splits;
  };
  struct Digits {
    bool single;
  };
  struct Metaspace {
    std::string mark;
    PrependScheme scheme;
    bool splits;
  };
  using Step = std::variant<Split, ByteLevel, Digits, Metaspace>;
  using Word = std::function<void(std::string_view)>;

  void add(PartReader reader, int depth);
  void add_split(PartReader& reader);
  void add_metaspace(PartReader& reader);
  std::optional<KnownSplit> only_known_split() const { return only_known_split_; }
  void note_only_known_split();

  // The steps from `step` on; each hands every part to the next.
  void run(std::size_t step, Section section, const Word& word) const;
  void cut(const Split& split, std::size_t next, Section section, const Word& word) const;
  void cut(const ByteLevel& level, std::size_t next, Section section, const Word& word) const;
  void cut(const Digits& digits, std::size_t next, Section section, const Word& word) const;
  void cut(const Metaspace& metaspace, std::size_t next, Section section, const Word& word) const;
  void cut_stretches(std::vector<Stretch> found, SplitBehaviour behaviour, std::size_t next, Section section,
                     const Word& word) const;

  std::vector<Step> steps_;
  std::optional<KnownSplit> only_known_split_;  // where that is all there is to do
};

}  // namespace muster::tokenizer
