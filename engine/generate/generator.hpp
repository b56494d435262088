// Answers to prompts, and scores of given ones, in steps: which rows of which sequences each step computes, and what is
// drawn from them. Its books say which sequences there are.
//
// Note [Groups]
// A runner that works on several steps at once (its depth) has as many groups of sequences, each with one step under
// way: the next step of a sequence needs the token of the one before. Answers depend neither on groups nor on what else
// is computed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "generate/sequence_books.hpp"
#include "generate/step_runner.hpp"

namespace muster::generate {

struct GeneratorSettings {
  bool penalizes_repetition = false;  // draws need to know what was seen
  std::uint64_t seed = 0;
  std::vector<std::int32_t> end_tokens = {};  // each ends an answer and is its last token
  std::int64_t most_sequences = 8;            // computed at once
  std::int64_t most_prompt_rows = 2048;       // read in one step; longer prompts take several
  // 0: prompts are read along with the sequences being written. Else this share of the places must be free, or nothing
  // be written, before new prompts are read, and that happens in steps of their own: a device that replays the same
  // step again and again is slow at any other.
  double prefill_patience = 0;
};

class Generator {
 public:
  // Both must outlive this.
  Generator(StepRunner& runner, BlockPool& pool, GeneratorSettings settings);

  // A request that can never fit the cache is a bug of the caller.
  void add(Request request);
  bool idle() const { return load_ == 0; }
  // Branches that wait or are computed.
  std::int64_t load() const { return load_; }

  // Keeps as many steps under way as the runner takes, and waits for the oldest. Returns what its draws gave; nothing
  // where it only read.
  std::vector<GeneratedToken> step();
  // Ends a branch with the token that was reported last; nothing more is reported for it.
  void stop(std::int64_t index, std::int64_t sample);

 private:
  struct DrawnFor {
    Sequence* sequence;
    std::size_t branch;
    bool is_last_given;
  };
  struct UnderWay {
    std::size_t group = 0;
    std::vector<Sequence*> sequences = {};
    std::vector<DrawnFor> draws = {};
  };
  struct Share {
    Sequence* sequence;
    std::int64_t rows;
  };

  bool begin_step();
  bool is_under_way(std::size_t group) const;
  std::vector<Share> shares_of(std::size_t group);
  bool give_rows(std::vector<Share>& shares, const std::function<bool(const Sequence&)>& is_meant);
  void add_share(Step& step, UnderWay& record, const Share& share) const;
  void add_draws(Step& step, UnderWay& record, const Share& share) const;
  Draw draw_of(const Sequence& sequence, std::size_t branch, std::int64_t row) const;
  GeneratedToken accept(const DrawnFor& draw, const tensor::ChosenToken& chosen);
  void settle(Sequence& sequence);

  StepRunner& runner_;
  GeneratorSettings settings_;
  std::size_t groups_;
  SequenceBooks books_;
  std::deque<UnderWay> under_way_;
  std::size_t next_group_ = 0;
  std::int64_t load_ = 0;
};

}  // namespace muster::generate
