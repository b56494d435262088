// The prompts of a command: a text file with one per line, or JSON lines. Read on demand, so that a file may be
// larger than the memory.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "system/file_descriptor.hpp"
#include "system/line_reader.hpp"

namespace muster::job {

// What a row must hold for a command.
enum class PromptUse {
  prompts,   // "prompt" or "messages"
  scores,    // the same and "completion"
  decoding,  // "tokens"
};

struct PromptRow {
  std::int64_t index = 0;               // of the row, from 0: empty lines are not rows
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
  std::int64_t adapter = 0;  // its number among those of the job; -1: none of them
};

// A row of JSON. source: "prompts.jsonl:3", for messages. Unknown keys are ignored, unless they
// look like a known one. adapters: what "adapter" may name; without it a row has the first one.
Result<PromptRow> parse_prompt_row(std::string_view json, std::string_view source, PromptUse use,
                                   const std::vector<std::string>& adapters = {});

struct NoPromptYet {};
struct NoMorePrompts {};
using NextPrompt = std::variant<PromptRow, NoPromptYet, NoMorePrompts>;

// Rows in their order, one at a time.
class PromptFile {
 public:
  static constexpr std::size_t longest_usual_line = std::size_t{1} << 30;

  // path "-": standard input. By name .jsonl and .json are JSON lines and .txt is text; otherwise a first line that
  // begins with { makes it JSON lines.
  static Result<PromptFile> open(const std::string& path, PromptUse use, std::size_t longest_line = longest_usual_line,
                                 std::vector<std::string> adapters = {});

  // Prompts that were typed as words, as if they were in a file.
  static Result<PromptFile> of_texts(const std::vector<std::string>& texts);

  // From here on a row that asks for the model alone is wrong.
  void require_adapter() { needs_adapter_ = true; }

  // Waits; nothing at the end. A wrong row is an error that names its line; the next call continues after it.
  Result<std::optional<PromptRow>> next();
  // The same without waiting.
  Result<NextPrompt> try_next();
  // Whether try_next() can return something although the descriptor has nothing to read.
  bool ready() const { return lines_.ready(); }
  int descriptor() const { return lines_.descriptor(); }

  std::int64_t bytes_read() const { return static_cast<std::int64_t>(lines_.bytes_read()); }
  std::int64_t bytes_total() const { return total_.value_or(0); }  // 0 where it cannot be known
  // Whether it can be opened and read again: a file on disk can, a pipe cannot.
  bool can_be_read_twice() const { return total_.has_value(); }
  // Whether it is that file.
  bool is_same_as(const std::string& path) const;
  // "prompts.jsonl", "standard input".
  const std::string& name() const { return name_; }

 private:
  enum class Form { by_first_line, text, json };
  PromptFile(FileDescriptor file, std::string name, PromptUse use, Form form, std::optional<std::int64_t> total,
             std::size_t longest_line, std::vector<std::string> adapters);
  Result<PromptRow> row_of(std::string line) const;

  FileDescriptor file_;  // none: standard input
  LineReader lines_;
  std::string name_;
  PromptUse use_;
  Form form_;
  std::optional<std::int64_t> total_;  // bytes of a file on disk
  std::vector<std::string> adapters_;  // that rows may name
  bool needs_adapter_ = false;         // no row may do without
  std::int64_t index_ = 0;
};

// Reads a file from beginning to end: how many prompts it has, or everything that is wrong with it.
Result<std::int64_t> check_prompts(PromptFile file);

}  // namespace muster::job
