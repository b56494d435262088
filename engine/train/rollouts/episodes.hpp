// Answers in an environment: turn after turn, until each episode is over.
//
// Note [Turns]
// What the model wrote stays as the tokens that it drew, and what the environment says to it is rendered by itself and appended;
// nothing is rendered again. Appended tokens are read, never trained on, and count in no length but that of the whole sequence.
// Episodes of a rank go on together: each turn is one call of the sampler, with a seed of its own, so that tokens depend on seed,
// round, prompt, sample and turn alone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "chat/model_text.hpp"
#include "communicate/communicator.hpp"
#include "environment/environment.hpp"
#include "generate/sampler.hpp"
#include "train/question_evaluation.hpp"
#include "train/rollouts/rollout.hpp"

namespace muster::train {

class Episodes {
 public:
  // All must outlive it. questions: of every prompt, with its row. stop_tokens: end an answer and are no part of its text.
  static Result<std::unique_ptr<Episodes>> make(const spec::EnvironmentOptions& options, const chat::ModelText& text,
                                                const std::vector<Question>& questions,
                                                const std::vector<std::int64_t>& stop_tokens, std::uint64_t seed);

  // Completions of these requests, of this turn.
  using Draw = std::function<std::vector<generate::Completion>(const std::vector<generate::Request>& requests, std::int64_t turn)>;
  // Those of these requests, in the order of prompt and sample, with their rewards. All ranks call it. An Error is every rank's.
  Result<std::vector<Rollout>> play(std::vector<generate::Request> first, const Draw& draw, communicate::Communicator& ranks,
                                    at::Device device) const;

  // Its answers, and what was said after each but the last, as texts.
  std::vector<std::string> turns_of(const Rollout& rollout) const;

 private:
  struct Episode {
    Rollout rollout;
    std::int64_t room = 0;  // tokens that it may have after its prompt
    std::unique_ptr<environment::Session> session;
    bool is_live = true;
  };

  Episodes(const spec::EnvironmentOptions& options, const chat::ModelText& text, const std::vector<Question>& questions,
           const std::vector<std::int64_t>& stop_tokens, std::uint64_t seed)
      : options_(options), text_(text), questions_(questions), stop_tokens_(stop_tokens), seed_(seed) {}

  Result<std::vector<Episode>> begin(const std::vector<generate::Request>& requests) const;
  // Takes an answer, and what the environment says to it.
  Result<void> advance(Episode& episode, generate::Completion given) const;
  Result<void> advance_all(const std::vector<Episode*>& episodes, std::vector<generate::Completion> given) const;
  Result<bool> append(Episode& episode, const std::vector<environment::Message>& messages) const;
  std::string answer_text(std::span<const std::int32_t> tokens) const;

  const spec::EnvironmentOptions& options_;
  const chat::ModelText& text_;
  const std::vector<Question>& questions_;
  const std::vector<std::int64_t>& stop_tokens_;
  std::uint64_t seed_;
  std::unique_ptr<environment::Environment> environment_;
};

}  // namespace muster::train
