// "normalizer": what is done to the text before it is split.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tokenizer/normal_form.hpp"
#include "tokenizer/part_reader.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/section.hpp"

namespace muster::tokenizer {

class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  static Normalizer read(PartReader reader);

  bool empty() const { return steps_.empty(); }
  OwnedSection apply(Section section) const;

 private:
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Prepend {
    std::string text;
  };
  struct Lowercase {};
  struct Strip {
    bool left, right;
  };
  using Step = std::variant<NormalForm, Replace, Prepend, Lowercase, Strip>;

  void add(PartReader reader, int depth);
  static OwnedSection applied(const NormalForm& form, Section section);
  static OwnedSection applied(const Replace& replace, Section section);
  static OwnedSection applied(const Prepend& prepend, Section section);
  static OwnedSection applied(const Lowercase&, Section section);
  static OwnedSection applied(const Strip& strip, Section section);

  std::vector<Step> steps_;
};

// {"String": …} or {"Regex": …}.
Pattern read_pattern(PartReader reader);

}  // namespace muster::tokenizer
