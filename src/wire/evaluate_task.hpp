// A task that measures how good a model is. All ranks get the same one and take a share each; rank 0 sends Evaluated,
// and every rank its answers, in the rows of results (AnsweredQuestion) under the numbers of the questions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/generate_task.hpp"

namespace muster::wire {

struct EvaluateTask {
  std::string model;                     // as the user calls it
  std::optional<std::string> adapter;    // folder of a low-rank adapter beside its weights
  std::optional<std::string> tokenizer;  // of another folder
  bool random_weights = false;           // instead of the checkpoint's
  spec::ElementType dtype = spec::ElementType::float32;
  std::optional<spec::WeightOptions> weights;  // absent: plain ones
  spec::Attention attention = spec::Attention::sdpa;
  bool deterministic = false;
  std::optional<std::string> data;       // prepared tokens, for the loss
  std::int64_t micro_batch = 1;          // samples of a pass
  std::optional<std::string> questions;  // JSON lines with prompt, answer and perhaps "rendered"
  std::int64_t question_batch = 1;       // questions answered at once

  static constexpr std::string_view word = "evaluate";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("model", self.model);
    visit("adapter", self.adapter);
    visit("tokenizer", self.tokenizer);
    visit("random_weights", self.random_weights);
    visit("dtype", self.dtype);
    visit("weights", self.weights);
    visit("attention", self.attention);
    visit("deterministic", self.deterministic);
    visit("data", self.data);
    visit("micro_batch", self.micro_batch);
    visit("questions", self.questions);
    visit("question_batch", self.question_batch);
  }
  bool operator==(const EvaluateTask&) const = default;
};

}  // namespace muster::wire
