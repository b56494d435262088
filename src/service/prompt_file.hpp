// The prompts of a command: a text file with one a line, or JSON lines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::service {

// What a row must hold for a command.
enum class PromptUse {
  prompts,   // "prompt" or "messages"
  scores,    // the same and "completion"
  decoding,  // "tokens"
};

struct PromptRow {
  std::int64_t index = 0;               // of the row, from 0: empty lines are no rows
  std::int64_t line = 1;                // in the file
  nlohmann::ordered_json id = nullptr;  // text or a number; null: none
  std::optional<std::string> prompt;
  nlohmann::ordered_json messages = nullptr;  // a list; null: none
  nlohmann::ordered_json tools = nullptr;
  nlohmann::ordered_json documents = nullptr;
  nlohmann::ordered_json template_variables = nlohmann::ordered_json::object();
  std::optional<bool> add_generation_prompt;
  bool continue_final_message = false;
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::string> completion;
  std::vector<std::int32_t> tokens;
};

// A row of JSON. source: "prompts.jsonl:3", for messages. Keys that are not known are no concern of ours, unless they
// look like one that is.
Result<PromptRow> parse_prompt_row(std::string_view json, std::string_view source, PromptUse use);

// Rows in their order, one at a time, so that a file may be larger than the memory.
class PromptFile {
 public:
  // path "-": standard input. By name .jsonl and .json are JSON lines and .txt is text; otherwise a first line that
  // begins with { makes it JSON lines.
  static Result<PromptFile> open(const std::string& path, PromptUse use);
  PromptFile(PromptFile&&) noexcept;
  PromptFile& operator=(PromptFile&&) noexcept;
  ~PromptFile();

  // Nothing at the end. A wrong row is an error that names its line; the next call goes on behind it.
  Result<std::optional<PromptRow>> next();

  std::int64_t bytes_read() const;
  std::int64_t bytes_total() const;  // 0 where it cannot be known

 private:
  struct State;
  explicit PromptFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::service
