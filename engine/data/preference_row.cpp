#include "data/preference_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/message_list.hpp"
#include "data/training_row.hpp"
#include "json/json_text.hpp"

namespace muster::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* accepted_pairs =
    R"(accepted: {"prompt", "chosen", "rejected"}, texts or lists of messages, or {"chosen", "rejected"} that begin alike)";

Error not_a_pair(std::string what) { return {Error::Kind::bad_input, std::move(what), accepted_pairs}; }

Result<void> check_pair_keys(const Json& row) {
  for (const char* key : {"chosen", "rejected"})
    if (!row.contains(key)) return not_a_pair(fmt::format("the row has no \"{}\"", key));
  if (row["chosen"] == row["rejected"])
    return Error{Error::Kind::bad_input, "\"chosen\" and \"rejected\" are equal, so that neither is preferred",
                 "remove the row"};
  for (const char* key : {"prompt", "chosen", "rejected"})
    if (row.contains(key) && !row[key].is_string() && !row[key].is_array())
      return not_a_pair(fmt::format("\"{}\" is {}, neither a text nor a list of messages", key, shown(row[key])));
  if (row["chosen"].is_string() != row["rejected"].is_string())
    return not_a_pair("one of \"chosen\" and \"rejected\" is a text and the other one a list of messages");
  if (row["chosen"] == "")
    return Error{Error::Kind::bad_input, "\"chosen\" is empty, so that there is nothing to learn",
                 "remove the row, or write what is preferred"};
  return {};
}

Error nothing_in_common() {
  return {Error::Kind::bad_input, "\"chosen\" and \"rejected\" begin differently, and the row has no \"prompt\"",
          R"(give {"prompt", "chosen", "rejected"})"};
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// At least one character of each is left.
std::size_t common_text(const std::string& first, const std::string& second) {
  const std::size_t most = std::min(first.size(), second.size());
  if (most == 0) return 0;
  std::size_t size = 0;
  while (size < most && first[size] == second[size]) ++size;
  const bool whole = size == most;  // one is how the other one begins
  if (whole) --size;
  while (size > 0 && continues_character(first[size])) --size;
  if (!whole && size > 0 && first[size - 1] == ' ') --size;
  return size;
}

Result<PreferenceRow> texts_of(const Json& row) {
  PreferredText made{"", row["chosen"].get<std::string>(), row["rejected"].get<std::string>()};
  if (row.contains("prompt")) {
    made.prompt = row["prompt"].get<std::string>();
    return PreferenceRow(std::move(made));
  }
  const std::size_t size = common_text(made.chosen, made.rejected);
  if (size == 0) return nothing_in_common();
  made.prompt = made.chosen.substr(0, size);
  made.chosen.erase(0, size);
  made.rejected.erase(0, size);
  return PreferenceRow(std::move(made));
}

// What both begin with is removed from them and returned; at least one message of each is left.
Json take_common_messages(Json& first, Json& second) {
  const std::size_t most = std::min(first.size(), second.size()) - 1;
  std::size_t count = 0;
  while (count < most && first[count] == second[count]) ++count;
  Json common = Json::array();
  for (std::size_t i = 0; i < count; ++i) common.push_back(first[i]);
  const auto end = static_cast<std::ptrdiff_t>(count);
  first.erase(first.begin(), first.begin() + end);
  second.erase(second.begin(), second.begin() + end);
  return common;
}

Json as_messages(Json&& answer) {
  if (answer.is_array()) return std::move(answer);
  return Json::array({{{"role", "assistant"}, {"content", std::move(answer)}}});
}

void take_beside(Json& row, chat::Conversation& prompt) {
  if (row.contains("tools")) prompt.tools = std::move(row["tools"]);
  if (row.contains("documents")) prompt.documents = std::move(row["documents"]);
  for (const char* key : {"chat_template_kwargs", "template_variables"})
    if (row.contains(key)) prompt.variables = std::move(row[key]);
}

Result<PreferenceRow> messages_of(Json& row) {
  PreferredMessages made;
  made.chosen = as_messages(std::move(row["chosen"]));
  made.rejected = as_messages(std::move(row["rejected"]));
  if (auto checked = check_messages("chosen", made.chosen); !checked) return checked.error();
  if (auto checked = check_messages("rejected", made.rejected); !checked) return checked.error();
  Json& prompt = made.prompt.messages;
  prompt = row.contains("prompt") ? std::move(row["prompt"]) : take_common_messages(made.chosen, made.rejected);
  if (prompt.is_array() && prompt.empty() && !row.contains("prompt")) return nothing_in_common();
  if (auto checked = check_messages("prompt", prompt); !checked) return checked.error();
  made.prompt.add_generation_prompt = prompt.back()["role"] != "assistant";
  take_beside(row, made.prompt);
  return PreferenceRow(std::move(made));
}

Result<float> margin_of(const Json& row) {
  const auto margin = row.find("margin");
  if (margin == row.end() || margin->is_null()) return 0.0F;
  if (margin->is_number() && std::isfinite(margin->get<float>())) return margin->get<float>();
  return bad_input(fmt::format("\"margin\" is {}, not a number", shown(*margin)),
                   "write by how much the chosen one is better, or leave it out");
}

Result<Json> row_of(std::string_view json) {
  if (json.size() > longest_row)
    return bad_input(fmt::format("the row is longer than {} MiB, the most that is read", longest_row >> 20),
                     "share it out over several rows");
  auto row = parse_ordered_json_object(json, "the row");
  if (!row) return Error{Error::Kind::bad_input, row.error().what, "a line holds one JSON object"};
  return row;
}

constexpr const char* text_and_lists = "give messages as the prompt, or leave it out where both answers begin with it";

Result<PreferenceRow> preference_of(Json& row) {
  if (auto checked = check_pair_keys(row); !checked) return checked.error();
  const bool has_prompt = row.contains("prompt"), asks_in_messages = has_prompt && row["prompt"].is_array();
  if (row["chosen"].is_string() && !asks_in_messages) return texts_of(row);
  if (has_prompt && !asks_in_messages)
    return bad_input("\"prompt\" is a text, and the answers are lists of messages", text_and_lists);
  return messages_of(row);
}

// The messages of one side, after those of the prompt.
Result<chat::Conversation> whole_conversation(const char* key, const chat::Conversation& prompt, Json answer) {
  if (auto checked = check_messages(key, answer); !checked) return checked.error();
  chat::Conversation whole = prompt;
  for (Json& message : answer) whole.messages.push_back(std::move(message));
  return whole;
}

Result<Comparison> conversations_of(Json& row) {
  chat::Conversation prompt;
  if (row.contains("prompt")) {
    if (auto checked = check_messages("prompt", row["prompt"]); !checked) return checked.error();
    prompt.messages = std::move(row["prompt"]);
  }
  take_beside(row, prompt);
  auto chosen = whole_conversation("chosen", prompt, as_messages(std::move(row["chosen"])));
  if (!chosen) return chosen.error();
  auto rejected = whole_conversation("rejected", prompt, as_messages(std::move(row["rejected"])));
  if (!rejected) return rejected.error();
  return Comparison{std::move(*chosen), std::move(*rejected), 0};
}

Result<Comparison> comparison_of(Json& row) {
  if (auto checked = check_pair_keys(row); !checked) return checked.error();
  const bool has_prompt = row.contains("prompt"), asks_in_messages = has_prompt && row["prompt"].is_array();
  if (row["chosen"].is_array() || asks_in_messages) {
    if (has_prompt && !asks_in_messages)
      return bad_input("\"prompt\" is a text, and the answers are lists of messages", text_and_lists);
    return conversations_of(row);
  }
  const std::string prompt = has_prompt ? row["prompt"].get<std::string>() : "";
  return Comparison{prompt + row["chosen"].get<std::string>(), prompt + row["rejected"].get<std::string>(), 0};
}

Error not_judged(std::string what) {
  return {Error::Kind::bad_input, std::move(what),
          R"(accepted: {"prompt", "completion", "label": true or false}, or {"prompt", "chosen", "rejected"})"};
}

Result<JudgedRow> judged_of(Json& row) {
  for (const char* key : {"prompt", "completion", "label"})
    if (!row.contains(key)) return not_judged(fmt::format("the row has no \"{}\"", key));
  if (!row["label"].is_boolean())
    return not_judged(fmt::format("\"label\" is {}, neither true nor false", shown(row["label"])));
  const bool desired = row["label"].get<bool>();
  Json& prompt = row["prompt"];
  Json& answer = row["completion"];
  if (prompt.is_string() && answer.is_string())
    return JudgedRow(JudgedText{prompt.get<std::string>(), answer.get<std::string>(), desired});
  if (!prompt.is_array() || !(answer.is_array() || answer.is_string()))
    return not_judged(fmt::format("\"prompt\" is {} and \"completion\" {}", shown(prompt), shown(answer)));
  JudgedMessages made{{}, as_messages(std::move(answer)), desired};
  if (auto checked = check_messages("prompt", prompt); !checked) return checked.error();
  if (auto checked = check_messages("completion", made.answer); !checked) return checked.error();
  made.prompt.messages = std::move(prompt);
  made.prompt.add_generation_prompt = made.prompt.messages.back()["role"] != "assistant";
  take_beside(row, made.prompt);
  return JudgedRow(std::move(made));
}

}  // namespace

Result<PreferenceRow> parse_preference_row(std::string_view json) {
  auto row = row_of(json);
  if (!row) return row.error();
  return preference_of(*row);
}

Result<Comparison> parse_comparison(std::string_view json) {
  auto row = row_of(json);
  if (!row) return row.error();
  const auto margin = margin_of(*row);
  if (!margin) return margin.error();
  auto comparison = comparison_of(*row);
  if (comparison) comparison->margin = *margin;
  return comparison;
}

Result<std::vector<JudgedRow>> parse_judgements(std::string_view json) {
  auto row = row_of(json);
  if (!row) return row.error();
  if (!row->contains("chosen") && !row->contains("rejected")) {
    auto judged = judged_of(*row);
    if (!judged) return judged.error();
    return std::vector{std::move(*judged)};
  }
  auto pair = preference_of(*row);
  if (!pair) return pair.error();
  if (auto* texts = std::get_if<PreferredText>(&*pair))
    return std::vector<JudgedRow>{JudgedText{texts->prompt, std::move(texts->chosen), true},
                                  JudgedText{texts->prompt, std::move(texts->rejected), false}};
  auto& messages = std::get<PreferredMessages>(*pair);
  return std::vector<JudgedRow>{JudgedMessages{messages.prompt, std::move(messages.chosen), true},
                                JudgedMessages{messages.prompt, std::move(messages.rejected), false}};
}

}  // namespace muster::data
