// What a user's rows ask, and what the right answer is: for exact match by generation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"

namespace muster::data {

struct RowQuestion {
  std::string prompt;
  std::string answer;
  bool rendered = false;  // the prompt is what a chat template wrote: the tokenizer adds nothing to it

  bool operator==(const RowQuestion&) const = default;
};

// A file or folder of training rows: of prompt and completion, instruction and output, the second is the answer; of
// messages, the last one, which must be the assistant's. Refused with file and line: rows that have no answer.
Result<std::vector<RowQuestion>> questions_of_rows(const std::filesystem::path& path, const chat::ModelText& text);

// A file of JSON lines with "prompt" or "messages", and "answer".
Result<std::vector<RowQuestion>> questions_of_file(const std::filesystem::path& path, const chat::ModelText& text);

// What a model is to answer whose answers are then judged.
struct RowPrompt {
  std::string prompt;
  bool rendered = false;              // as RowQuestion::rendered
  std::optional<std::string> answer;  // the right one, where the row says
  std::string row;                    // all of it: one JSON object
  std::string where;                  // "data.jsonl:12"

  bool operator==(const RowPrompt&) const = default;
};

// A file or folder of rows with "prompt" or "question", a text or messages, or "messages", perhaps with "answer", "solution"
// or "completion"; of messages, a last one of the assistant's is the answer. Refused with file and line: rows that ask nothing.
Result<std::vector<RowPrompt>> prompts_of_rows(const std::filesystem::path& path, const chat::ModelText& text);

// A file or folder of rows, as they are: with row and where alone.
Result<std::vector<RowPrompt>> whole_rows(const std::filesystem::path& path);

// The most tokens to wait for: twice those of the right answer, which may be tokenised differently, and two more, so
// that a longer answer is seen to be wrong.
constexpr std::int64_t most_answer_tokens(std::int64_t right) { return 2 * right + 2; }

}  // namespace muster::data
