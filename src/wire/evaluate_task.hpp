// A task that measures how good a model is. All ranks get the same one and take a share each; rank 0 sends Evaluated,
// and every rank its answers, in the rows of results (AnsweredQuestion) under the numbers of the questions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/model_choice.hpp"

namespace muster::wire {

struct EvaluateTask {
  ModelChoice model;                     // with one adapter at most
  std::optional<std::string> data;       // prepared tokens, for the loss
  std::int64_t micro_batch = 1;          // samples of a pass
  std::optional<std::string> questions;  // JSON lines with prompt, answer and perhaps "rendered"
  std::int64_t question_batch = 1;       // questions answered at once

  static constexpr std::string_view word = "evaluate";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    ModelChoice::describe(self.model, visit);  // among the task's own fields
    visit("data", self.data);
    visit("micro_batch", self.micro_batch);
    visit("questions", self.questions);
    visit("question_batch", self.question_batch);
  }
  bool operator==(const EvaluateTask&) const = default;
};

}  // namespace muster::wire
