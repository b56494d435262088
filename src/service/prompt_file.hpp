// Prompts as people write them down, one a line: plain text, or JSON objects with "prompt" or "messages". Read as they
// are wanted, so that a million of them take no more memory than one.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/line_reader.hpp"
#include "base/result.hpp"

namespace muster::service {

using OrderedJson = nlohmann::ordered_json;  // templates see the keys of messages and tools in their order

// What a row must have.
enum class PromptUse {
  generate,  // prompt or messages
  score,     // and a completion
  tokenize,  // prompt or messages
  decode,    // tokens
};

struct PromptRow {
  std::int64_t index = 0;  // among the prompts, from 0
  std::int64_t line = 0;   // in the file, from 1
  OrderedJson id;          // a text or a number; null: none
  std::optional<std::string> prompt;
  OrderedJson messages;            // a list, where there is no prompt
  OrderedJson tools;               // a list; null: none
  OrderedJson documents;           // a list; null: none
  OrderedJson template_variables;  // an object; null: none
  std::optional<bool> add_generation_prompt;
  bool continue_final_message = false;
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::string> completion;
  std::vector<std::int32_t> tokens;
};

struct NoPromptYet {};
struct NoMorePrompts {};
using NextPrompt = std::variant<PromptRow, NoPromptYet, NoMorePrompts>;

class PromptFile {
 public:
  // path: a file, or "-" for standard input. JSON lines where the name ends in .jsonl, .ndjson or .json, text where it
  // ends in .txt; else as the first line looks: one that begins with { is JSON.
  static Result<PromptFile> open(const std::string& path, PromptUse use);

  // Never waits. A wrong row is bad_input with its line; the next call goes on behind it. Empty lines are passed over.
  Result<NextPrompt> next();
  // The same, but waits; nothing at the end.
  Result<std::optional<PromptRow>> wait_for_next();

  // Whether next() can tell something although the descriptor has nothing to read.
  bool ready() const { return lines_.ready(); }
  int descriptor() const { return lines_.descriptor(); }
  // "prompts.jsonl", "standard input".
  const std::string& name() const { return name_; }
  // Whether it can be opened and read again: a file on disk can, a pipe cannot.
  bool can_be_read_twice() const { return regular_; }
  // How much of a file on disk was taken from it, and its size; 0 and 0 for a pipe.
  std::pair<std::int64_t, std::int64_t> bytes_taken() const;
  // Whether it is that file.
  bool is_same_as(const std::string& path) const;

 private:
  enum class Format { unknown, text, json };
  PromptFile(FileDescriptor file, int descriptor, std::string name, PromptUse use, Format format, bool regular);
  Result<PromptRow> read_row(std::string line);

  FileDescriptor file_;  // none: standard input
  LineReader lines_;
  std::string name_;
  PromptUse use_;
  Format format_;
  bool regular_;
  std::int64_t index_ = 0;
};

// The row that a line of JSON holds, index and line not set. where: for messages, as in "prompts.jsonl:3".
Result<PromptRow> parse_prompt_row(std::string_view text, PromptUse use, const std::string& where);

// Reads a file from beginning to end: how many prompts it has, or everything that is wrong with it.
Result<std::int64_t> check_prompts(const std::string& path, PromptUse use);

}  // namespace muster::service
