// Exact match: questions are answered by real generation, and the answers compared letter for letter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "model/causal_model.hpp"

namespace muster::train {

struct Question {
  std::string prompt;
  std::string answer;
  std::vector<std::int32_t> tokens;  // of the prompt
};

// JSON lines with prompt and answer.
Result<std::vector<Question>> read_questions(const std::filesystem::path& path, const chat::ModelText& text);

struct GivenAnswer {
  std::size_t question = 0;
  std::string text;
};

class QuestionEvaluation {
 public:
  // All must outlive this. Refused: a question that does not fit the model.
  static Result<QuestionEvaluation> make(std::vector<Question> questions, const chat::ModelText& text,
                                         model::CausalModel& model, tensor::Arithmetic& arithmetic);

  const std::vector<Question>& questions() const { return questions_; }
  bool is_right(const GivenAnswer& answer) const { return answer.text == questions_[answer.question].answer; }
  // The most likely answers to the questions first, first + stride, …
  std::vector<GivenAnswer> answer(std::size_t first, std::size_t stride);

 private:
  QuestionEvaluation(std::vector<Question> questions, const chat::ModelText& text, model::CausalModel& model,
                     tensor::Arithmetic& arithmetic)
      : questions_(std::move(questions)), text_(text), model_(model), arithmetic_(arithmetic) {}

  std::vector<Question> questions_;
  const chat::ModelText& text_;
  model::CausalModel& model_;
  tensor::Arithmetic& arithmetic_;
  std::int64_t most_new_tokens_ = 0;
  std::int64_t longest_ = 0;  // prompt and answer together
};

}  // namespace muster::train
