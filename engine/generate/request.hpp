// What a generator is asked for, and what it reports: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace muster::generate {

// One continuation of a prompt: drawn token by token, or given and looked up.
struct Branch {
  std::int64_t index = 0;   // of the prompt in the input; random streams follow from it
  std::int64_t sample = 0;  // and from this
  std::int64_t most_tokens = 0;
  std::vector<std::int32_t> given = {};  // not empty: nothing is drawn, most_tokens does not matter
  std::int64_t unscored = 0;             // this many of the given ones, from the first, are only read
};

// A prompt, which is computed once, and all its continuations.
struct Request {
  std::vector<std::int32_t> prompt;  // at least one token
  std::vector<Branch> branches;      // at least one
  std::int64_t adapter = 0;          // its number among the model's; -1: none
};

enum class Finish { stop, length };

// A drawn token, or a given one that was looked up.
struct GeneratedToken {
  std::int64_t index = 0;
  std::int64_t sample = 0;
  std::int32_t token = 0;
  float log_probability = 0;
  std::optional<Finish> finish = {};  // the branch ends with this token; given ones end with `length`

  bool operator==(const GeneratedToken&) const = default;
};

}  // namespace muster::generate
