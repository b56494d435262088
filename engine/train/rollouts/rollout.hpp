// What a model answered while it was trained, and what that was worth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::train {

// Tokens from begin up to, but not including end, counted from the first one after the prompt.
struct InsertedTokens {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool operator==(const InsertedTokens&) const = default;
};

// One answer, or the answers of an episode with what the environment said between them.
struct Rollout {
  std::int64_t prompt = 0;  // its number in the data
  std::int64_t sample = 0;  // which of the answers to it
  std::vector<std::int32_t> tokens = {};      // the last one was drawn
  std::vector<InsertedTokens> inserted = {};  // of these, the environment's; in order, and apart from each other
  std::vector<float> log_probabilities = {};  // that the others were drawn by
  std::vector<float> reference = {};          // that the reference gives them; empty: there is none
  std::vector<float> values = {};             // that were expected from each of them on; empty: nothing was
  // With an end token, which is its last one; of an episode, with the last answer that the environment waited for.
  bool ended = false;
  std::optional<bool> solved = {};  // of an episode, where that can be said
  std::vector<std::optional<double>> turn_rewards = {};  // of an episode, by answer
  std::optional<double> reward = {};
  std::vector<std::optional<double>> parts = {};  // of the reward, by function
  // Over the other answers to the prompt, or, where values are expected, the mean over its tokens; 0 where there is no
  // reward.
  double advantage = 0;
  std::vector<double> token_advantages = {}, returns = {};  // of each token, where values are expected

  // Tokens that were drawn.
  std::int64_t length() const {
    auto count = static_cast<std::int64_t>(tokens.size());
    for (const InsertedTokens& span : inserted) count -= span.end - span.begin;
    return count;
  }
  bool operator==(const Rollout&) const = default;
};

// All answers that are sampled with the same weights: prompts in the order of the data's epoch, each with its group.
struct Round {
  std::int64_t number = 0;  // from 0
  std::vector<Rollout> answers;
  bool is_judged = true;  // else no answer has a reward, nor what follows from rewards

  bool operator==(const Round&) const = default;
};

}  // namespace muster::train
