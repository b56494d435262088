// "decoder": how tokens become text again.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/part_reader.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/pre_tokenizer.hpp"

namespace muster::tokenizer {

// The steps, in order. Up to Fuse or ByteLevel each step sees one token after the other; after them the tokens are
// one, which arrives in parts.
class Decoder {
 public:
  struct ByteLevel {};
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct ByteFallback {};
  struct Fuse {};
  struct Strip {
    std::string character;
    std::size_t start, stop;  // at most that many are taken from either end
  };
  struct Metaspace {
    std::string mark;
    bool drops_first;  // the mark in the first token does not stand for a space
  };
  struct JoinWithSpaces {};  // where the file has no decoder
  using Step = std::variant<ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, JoinWithSpaces>;

  Decoder() : steps_{JoinWithSpaces{}} {}
  static Decoder read(PartReader reader);
  const std::vector<Step>& steps() const { return steps_; }

 private:
  void add(PartReader reader, int depth);

  std::vector<Step> steps_;
};

// One text on its way: tokens go in, and what is certain of the text comes out.
class DecoderRun {
 public:
  explicit DecoderRun(const Decoder& decoder);  // which must outlive it

  void push(std::string_view token);
  void finish();  // no token follows
  // The text that has become certain since the last call.
  std::string take() { return std::exchange(text_, {}); }

 private:
  struct Stage {
    bool fused = false;  // what comes in is one token in parts
    bool begun = false;
    std::string held;  // not certain yet
    std::size_t dropped = 0;
  };

  void feed(std::size_t stage, std::string_view token);
  void finish_stage(std::size_t stage);
  void step(const Decoder::ByteLevel&, std::size_t stage, std::string_view token);
  void step(const Decoder::Replace& replace, std::size_t stage, std::string_view token);
  void step(const Decoder::ByteFallback&, std::size_t stage, std::string_view token);
  void step(const Decoder::Fuse&, std::size_t stage, std::string_view token);
  void step(const Decoder::Strip& strip, std::size_t stage, std::string_view token);
  void step(const Decoder::Metaspace& metaspace, std::size_t stage, std::string_view token);
  void step(const Decoder::JoinWithSpaces&, std::size_t stage, std::string_view token);
  void strip_part(const Decoder::Strip& strip, std::size_t stage, std::string_view part);
  void end_bytes(std::size_t stage);

  const Decoder& decoder_;
  std::vector<Stage> stages_;
  std::string text_;
  std::size_t given_ = 0, written_ = 0;  // bytes that came in and went out
};

}  // namespace muster::tokenizer
