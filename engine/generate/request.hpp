// What is asked of a generator, and what it tells: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace muster::generate {

// One way a prompt goes on: drawn token by token, or given and looked up.
struct Branch {
  std::int64_t index = 0;   // of the prompt in the input; random streams follow from it
  std::int64_t sample = 0;  // and from this
  std::int64_t most_tokens = 0;
  std::vector<std::int32_t> given = {};  // not empty: nothing is drawn, most_tokens does not matter
  std::int64_t unscored = 0;             // the first so many of the given ones are only read
};

// A prompt, which is computed once, and all that goes on from it.
struct Request {
  std::vector<std::int32_t> prompt;  // at least one token
  std::vector<Branch> branches;      // at least one
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
