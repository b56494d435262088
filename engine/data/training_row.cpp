#include "data/training_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.hpp"
#include "data/message_list.hpp"
#include "json/json_text.hpp"

namespace muster::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* accepted =
    R"(accepted: {"prompt", "completion"}, {"messages"}, {"instruction", "input", "output"}, {"observations", "actions"} or {"text"})";

struct Form {
  std::string_view name;
  std::vector<std::string_view> needed;
  std::vector<std::string_view> allowed;  // in addition
};

const std::array<Form, 5>& forms() {
  static const std::array<Form, 5> table{{
      {"text", {"text"}, {}},
      {"prompt and completion", {"prompt", "completion"}, {}},
      {"messages", {"messages"}, {"tools", "documents", "template_variables"}},
      {"instruction and output", {"instruction", "output"}, {"input"}},
      {"observations and actions", {"observations", "actions"}, {}},
  }};
  return table;
}

Error refusal(std::string what) { return {Error::Kind::bad_input, std::move(what), accepted}; }

bool has_any(const Json& row, const std::vector<std::string_view>& keys) {
  for (const std::string_view key : keys)
    if (row.contains(key)) return true;
  return false;
}

std::string keys_of(const Json& row) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : row.items()) keys.push_back(key);
  return keys.empty() ? "no keys" : "only " + join(keys, ", ");
}

// The one form whose keys the row has.
Result<const Form*> form_of(const Json& row) {
  const Form* found = nullptr;
  for (const Form& form : forms()) {
    if (!has_any(row, form.needed)) continue;
    if (found != nullptr)
      return refusal(
          fmt::format("the row has two forms, {} and {}: it is not clear which one is meant", found->name, form.name));
    found = &form;
  }
  if (found == nullptr) return refusal(fmt::format("the row has none of the known forms: it has {}", keys_of(row)));
  for (const std::string_view key : found->needed)
    if (!row.contains(key)) return refusal(fmt::format("the row has no \"{}\"", key));
  for (const Form& form : forms())
    if (&form != found)
      for (const std::string_view key : form.allowed)
        if (row.contains(key))
          return refusal(fmt::format("\"{}\" goes with {}, and the row has {}", key, form.name, found->name));
  return found;
}

Result<std::string> text_of(const Json& row, std::string_view key) {
  const Json& value = row[std::string(key)];
  if (!value.is_string()) return refusal(fmt::format("\"{}\" is {}, not a text", key, shown(value)));
  return value.get<std::string>();
}

// What is trained on: a text that is not empty.
Result<std::string> answer_of(const Json& row, std::string_view key) {
  auto text = text_of(row, key);
  if (text && text->empty())
    return Error{Error::Kind::bad_input, fmt::format("\"{}\" is empty, so that there is nothing to train on", key),
                 "remove the row, or write what is to be learnt"};
  return text;
}

Result<TrainingRow> pair_of(const Json& row) {
  auto prompt = text_of(row, "prompt");
  if (!prompt) return prompt.error();
  auto completion = answer_of(row, "completion");
  if (!completion) return completion.error();
  return TrainingRow(PairRow{std::move(*prompt), std::move(*completion)});
}

Result<TrainingRow> alpaca_of(const Json& row) {
  const auto instruction = text_of(row, "instruction");
  if (!instruction) return instruction.error();
  std::string input;
  if (row.contains("input") && !row["input"].is_null()) {
    auto given = text_of(row, "input");
    if (!given) return given.error();
    input = std::move(*given);
  }
  auto output = answer_of(row, "output");
  if (!output) return output.error();
  return TrainingRow(PairRow{alpaca_prompt(*instruction, input), std::move(*output)});
}

Result<TrainingRow> conversation_of(Json& row) {
  ConversationRow made;
  chat::Conversation& conversation = made.conversation;
  conversation.messages = std::move(row["messages"]);
  if (auto checked = check_messages("messages", conversation.messages); !checked) return checked.error();
  if (row.contains("tools")) conversation.tools = std::move(row["tools"]);
  if (row.contains("documents")) conversation.documents = std::move(row["documents"]);
  if (row.contains("template_variables")) conversation.variables = std::move(row["template_variables"]);
  return TrainingRow(std::move(made));
}

}  // namespace

std::string alpaca_prompt(std::string_view instruction, std::string_view input) {
  if (input.empty())
    return fmt::format(
        "Below is an instruction that describes a task. Write a response that appropriately completes the request."
        "\n\n### Instruction:\n{}\n\n### Response:",
        instruction);
  return fmt::format(
      "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
      "response that appropriately completes the request.\n\n### Instruction:\n{}\n\n### Input:\n{}\n\n### Response:",
      instruction, input);
}

Result<TrainingRow> parse_training_row(std::string_view json) {
  if (json.size() > longest_row)
    return Error{Error::Kind::bad_input,
                 fmt::format("the row is longer than {} MiB, the most that is read", longest_row >> 20),
                 "share it out over several rows; a long text may be a .txt file, which is read in parts"};
  auto row = parse_ordered_json_object(json, "the row");
  if (!row) return Error{Error::Kind::bad_input, row.error().what, "a line holds one JSON object"};
  const auto form = form_of(*row);
  if (!form) return form.error();
  const std::string_view first = (*form)->needed.front();
  if (first == "messages") return conversation_of(*row);
  if (first == "prompt") return pair_of(*row);
  if (first == "instruction") return alpaca_of(*row);
  if (first == "observations") {
    auto trajectory = parse_trajectory(std::move(*row));
    if (!trajectory) return trajectory.error();
    return TrainingRow(std::move(*trajectory));
  }
  auto text = text_of(*row, "text");
  if (!text) return text.error();
  return TrainingRow(TextRow{std::move(*text)});
}

}  // namespace muster::data
