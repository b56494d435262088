// The books of a generator: which sequences wait, which are computed and in which group, whose blocks are in the cache
// and whose on the host.
//
// Note [A prompt is computed once]
// A prompt is a sequence of its own until it is read. All branches get their first token from its last row, then go on
// one by one as places become free: they share its full blocks, and each but the last copies the one that is not full.
//
// Note [Pre-emption]
// Blocks are taken as sequences grow. Where none is free, the youngest sequence that is not under way goes to the host,
// whole, with copies of what it shares, and comes back before anything new is begun. Nothing is computed twice. The
// cache holds at least one sequence of the longest length, so that one can always go on, and everything ends.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "generate/block_traffic.hpp"
#include "generate/sequence.hpp"

namespace muster::generate {

struct BookSettings {
  std::size_t groups = 1;
  std::int64_t most_sequences = 8;
  double prefill_patience = 0;
};

class SequenceBooks {
 public:
  using Group = std::vector<std::unique_ptr<Sequence>>;

  // The pool must outlive this.
  SequenceBooks(BlockPool& pool, BookSettings settings);

  void add(Request request);
  // Fills free places: with those that were pre-empted, then with branches whose prompts are read, then with requests.
  void fill();
  // Moves sequences of a group that is not under way to emptier ones.
  void level(std::size_t group);
  const Group& group(std::size_t index) const { return groups_[index]; }

  // Blocks for this many tokens, which may cost younger sequences theirs. False: it was the youngest and lost its own.
  bool make_room(Sequence& sequence, std::int64_t tokens);
  // A prompt leaves its group; the branches that wait continue from it.
  void prompt_is_read(Sequence& prompt);
  void remove(Sequence& sequence);
  // Neither computed nor under way from now on; false where there is no such branch.
  bool end_branch(std::int64_t index, std::int64_t sample);

  // For the next step.
  std::vector<model::BlockMove> take_moves() { return traffic_.take(); }

 private:
  using Owned = std::unique_ptr<Sequence>;

  void bring_back();
  void start_branches();
  void admit();
  bool admits_prompts() const;
  Owned first_sequence(const std::shared_ptr<const Request>& request);
  bool start_branch(Sequence& prompt);
  bool give_blocks(Sequence& prompt, Sequence& branch);
  bool come_back(Sequence& sequence);
  Sequence* youngest_to_evict() const;
  void evict(Sequence& sequence);
  void enter(Owned sequence);
  Owned take_from_group(const Sequence& sequence);
  std::int64_t computed_at_once() const;
  std::int64_t places_taken() const;
  bool is_free(std::int64_t blocks) const;

  BlockPool& pool_;
  BookSettings settings_;
  BlockTraffic traffic_;
  std::deque<std::shared_ptr<const Request>> requests_;  // not begun
  std::vector<Group> groups_;
  std::deque<Owned> ready_;  // prompts that are read, with branches that wait for a place
  std::vector<Owned> evicted_;
  std::int64_t next_age_ = 0;
};

}  // namespace muster::generate
