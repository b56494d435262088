// Answers to prompts on one device. Sequences enter when there is room and leave when they end; each step is one
// forward pass over all of them, whether they are being read or written.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "generate/block_pool.hpp"
#include "generate/random_stream.hpp"
#include "generate/step_runner.hpp"

namespace muster::generate {

struct GeneratorSettings {
  bool penalizes_repetition = false;  // draws need to know what was seen
  std::uint64_t seed = 0;
  std::vector<std::int32_t> end_tokens;  // each ends an answer and is its last token
  std::int64_t most_sequences = 8;       // computed at once
  std::int64_t most_prompt_rows = 2048;  // read in one step; longer prompts take several
};

struct GenerationRequest {
  std::int64_t index = 0;  // of the prompt; its random streams follow from it
  std::int64_t sample = 0;
  std::vector<std::int32_t> prompt;  // at least one token
  std::int64_t most_tokens = 0;      // of the answer
};

enum class Finish { stop, length };

struct GeneratedToken {
  std::int64_t index = 0;
  std::int64_t sample = 0;
  std::int32_t token = 0;
  float log_probability = 0;
  std::optional<Finish> finish;  // the answer ends with this token
};

class Generator {
 public:
  // Both must outlive this.
  Generator(StepRunner& runner, BlockPool& pool, GeneratorSettings settings);

  // A request that can never fit the cache is a bug of the caller.
  void add(GenerationRequest request);
  bool idle() const { return waiting_.empty() && active_.empty(); }
  // Requests that wait or are computed.
  std::size_t load() const { return waiting_.size() + active_.size(); }

  // One forward pass. The tokens it chose; none where all sequences are still being read.
  std::vector<GeneratedToken> step();

 private:
  struct Sequence {
    GenerationRequest request;
    BlockList blocks;
    std::vector<std::int32_t> tokens;  // prompt and answer
    std::int64_t computed = 0;         // tokens whose keys are in the cache
  };
  void admit();
  Step next_step(std::vector<std::size_t>& drawn);
  GeneratedToken extend(Sequence& sequence, const tensor::ChosenToken& chosen) const;

  StepRunner& runner_;
  BlockPool& pool_;
  GeneratorSettings settings_;
  std::deque<GenerationRequest> waiting_;
  std::vector<Sequence> active_;
};

}  // namespace muster::generate
