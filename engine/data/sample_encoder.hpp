// From a row to samples: the chat template, the tokenizer, and which tokens are trained on.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "data/piece_reader.hpp"
#include "data/preference_row.hpp"
#include "data/sample.hpp"
#include "data/training_row.hpp"
#include "spec/sft_options.hpp"
#include "spec/trained_answers.hpp"

namespace muster::data {

struct EncodedSamples {
  std::vector<Sample> samples;
  std::vector<std::size_t> trajectories;  // of each that is learnt from, in order: its samples
  std::int64_t cut = 0;  // these as in SampleCounts
  std::int64_t dropped = 0;
  std::int64_t conversations = 0;
  std::int64_t split = 0;
  std::int64_t poor = 0;
};

// What is learnt of rows that hold whole conversations.
struct LearntParts {
  spec::TrainedAnswers which = spec::TrainedAnswers::all;  // the answers that are trained on
  spec::SftMode mode = spec::SftMode::behavioral_cloning;
  spec::TrajectoryChoice trajectories = {};

  bool operator==(const LearntParts&) const = default;
};

// Safe to use from many threads.
class SampleEncoder {
 public:
  // text must outlive this. Refused: a tokenizer without an end-of-sequence token; sequences of less than two tokens.
  static Result<SampleEncoder> make(const chat::ModelText& text, std::int64_t sequence_length, LearntParts parts = {});

  // Appends the samples of a row. A text becomes as many as its length requires. A conversation or a trajectory is one
  // sample, or one for each answer and reply (Note [Answers without marks] in answered_text.hpp), and prompt and completion
  // are one; each is cut at its end. Refused: a row without replies where they are learnt, one without rewards where
  // trajectories are chosen by them.
  Result<void> encode(const TrainingRow& row, EncodedSamples& out) const;
  // Appends two samples of one prompt, the chosen one first, or none where the prompt leaves no room. Prompt and answers
  // are tokenised apart. whole: the chosen one's prompt is trained on as well.
  Result<void> encode(const PreferenceRow& row, bool whole, EncodedSamples& out) const;
  // Appends a sample, with the judgement as its label.
  Result<void> encode(const JudgedRow& row, EncodedSamples& out) const;
  // Appends two samples, the chosen one first, whose last tokens are trained on: what comes after them is a token that
  // stands for nothing. None where one of them is longer than a sequence.
  Result<void> encode(const Comparison& row, EncodedSamples& out) const;
  // Appends the samples of part of a document.
  Result<void> encode(const DocumentPart& part, EncodedSamples& out) const;

 private:
  using Tokens = std::vector<std::int32_t>;
  SampleEncoder(const chat::ModelText& text, std::int32_t end_token, std::size_t longest, LearntParts parts)
      : text_(&text), end_token_(end_token), longest_(longest), parts_(parts) {}

  Result<Tokens> part_tokens(const DocumentPart& part) const;
  Result<Sample> pair(const PairRow& row) const;
  // A prompt, and answers to it.
  struct AnsweredPrompt {
    Tokens prompt;
    std::vector<Tokens> answers;
  };
  Result<AnsweredPrompt> tokens_of(const std::string& prompt, const std::vector<std::string>& answers) const;
  Result<AnsweredPrompt> tokens_of(const chat::Conversation& prompt,
                                   const std::vector<nlohmann::ordered_json>& answers) const;
  // False, and counted: the prompt leaves no room for an answer.
  bool has_room(const AnsweredPrompt& tokens, EncodedSamples& out) const;
  Sample sample_of(const Tokens& prompt, const Tokens& answer) const;
  Result<void> encode(const chat::Conversation& conversation, EncodedSamples& out) const;
  Result<void> encode(const TrajectoryRow& row, EncodedSamples& out) const;
  // Where there is no chat template: each answer, and each reply, is the completion of all that comes before it.
  Result<void> add_pairs(const TrajectoryRow& row, EncodedSamples& out) const;
  Result<Tokens> whole_tokens(const std::variant<std::string, chat::Conversation>& whole) const;
  void add_end(Tokens& tokens) const;
  void add_text(const Tokens& tokens, EncodedSamples& out) const;
  void add(Sample sample, EncodedSamples& out) const;

  const chat::ModelText* text_;
  std::int32_t end_token_;
  std::size_t longest_;
  LearntParts parts_;
};

}  // namespace muster::data
