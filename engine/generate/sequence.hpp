// Tokens that are computed one after another: a prompt, or one of its branches. What the generator's books hold of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "generate/block_pool.hpp"
#include "generate/request.hpp"

namespace muster::generate {

// A branch whose prompt is read, and which waits for a place.
struct WaitingBranch {
  std::size_t branch = 0;
  std::optional<std::int32_t> first = {};  // its first token, where that was drawn
};

struct Sequence {
  std::shared_ptr<const Request> request;
  std::int64_t age = 0;               // requests that came earlier
  std::optional<std::size_t> branch;  // absent: the prompt, which all branches continue
  std::vector<std::int32_t> tokens;   // from the prompt's first to the last one that is known
  std::int64_t computed = 0;          // tokens whose keys are there, or will be when the steps under way are done
  BlockList blocks;
  bool evicted = false;                    // waits to come back into the cache
  std::vector<std::int64_t> on_host = {};  // places of what is computed, while that is not in the cache
  bool under_way = false;
  bool ended = false;
  std::vector<WaitingBranch> waiting = {};  // of a prompt that is read

  const Branch& its_branch() const { return request->branches[*branch]; }
  bool is_prompt() const { return !branch.has_value(); }
  bool is_given() const { return branch && !its_branch().given.empty(); }
  std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t prompt_length() const { return static_cast<std::int64_t>(request->prompt.size()); }
  // Nothing follows from the last token of those that are given.
  std::int64_t reach() const { return length() - (is_given() ? 1 : 0); }
  std::int64_t pending() const { return reach() - computed; }
  // One token a step, as opposed to many that are known.
  bool is_decoding() const { return branch && !is_given(); }

  // Older ones are served first, and a prompt's branches before the prompt that others wait to continue.
  bool is_older_than(const Sequence& other) const {
    if (age != other.age) return age < other.age;
    return branch && (!other.branch || *branch < *other.branch);
  }
};

// The longest it can become: what rotary frequencies that depend on a length are made for.
std::int64_t longest(const Request& request);

}  // namespace muster::generate
