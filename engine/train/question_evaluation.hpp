// Exact match: questions are answered by real generation, and the answers compared letter for letter; white space
// around an answer does not count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "communicate/communicator.hpp"
#include "model/causal_model.hpp"
#include "train/lockstep_sampler.hpp"

namespace muster::train {

struct Question {
  std::string prompt;
  std::optional<std::string> answer;  // the right one
  std::vector<std::int32_t> tokens;   // of the prompt
  std::int64_t most_tokens = 0;       // that an answer to it may have
  std::string row = {};               // of the data, as the text of one JSON object; may be empty
};

// JSON lines with prompt and perhaps answer and row. "rendered": true says that the prompt is what a chat template wrote,
// to which the tokenizer adds nothing.
Result<std::vector<Question>> read_questions(const std::filesystem::path& path, const chat::ModelText& text);
// What the model said: without tokens that were drawn from logits that are not numbers, and special ones.
std::string text_of(const generate::Completion& given, const chat::ModelText& text);

struct GivenAnswer {
  std::size_t question = 0;
  std::string text;
};

class QuestionEvaluation {
 public:
  // All must outlive this. Refused: a question that does not fit the model. most_sequences: answered at once.
  static Result<QuestionEvaluation> make(std::vector<Question> questions, const chat::ModelText& text,
                                         model::CausalModel& model, tensor::DeviceOps& ops,
                                         std::int64_t most_sequences);

  const std::vector<Question>& questions() const { return questions_; }
  bool is_right(const GivenAnswer& answer) const;
  // The most likely answers to this rank's share of the questions. done: how many are answered, after each step. Where
  // the model's parameters are not always there, ranks keep step, and all of them call it. Where memory runs out, it
  // begins again with fewer at once.
  std::vector<GivenAnswer> answer(communicate::Communicator& ranks, const std::function<void(std::int64_t done)>& done);

 private:
  QuestionEvaluation(std::vector<Question> questions, const chat::ModelText& text, model::CausalModel& model,
                     tensor::DeviceOps& ops, std::int64_t most_sequences)
      : questions_(std::move(questions)),
        text_(text),
        sampler_(model, ops, most_sequences, "question of the evaluation") {}

  std::vector<Question> questions_;
  const chat::ModelText& text_;
  LockstepSampler sampler_;
  std::int64_t longest_ = 0;  // prompt and answer together
};

}  // namespace muster::train
