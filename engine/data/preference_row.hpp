// One row of a user's preferences: a prompt, an answer that is preferred, and one that it is preferred to.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "chat/conversation.hpp"

namespace muster::data {

struct PreferredText {
  std::string prompt, chosen, rejected;
};

struct PreferredMessages {
  chat::Conversation prompt;                // it asks for an answer, unless its last message is one
  nlohmann::ordered_json chosen, rejected;  // the messages that follow
};

using PreferenceRow = std::variant<PreferredText, PreferredMessages>;

// One JSON object: {"prompt", "chosen", "rejected"}, texts or lists of messages; with messages as the prompt the others
// may be texts, which the assistant says. Without "prompt" it is what both begin with: messages, or characters (a space
// before the difference belongs to the answers), of which each side keeps at least one. With messages also "tools",
// "documents" and "template_variables" (or "chat_template_kwargs"). Refused: a row without one of the two answers; equal
// ones; an empty chosen one; no common prompt; more than longest_row bytes.
Result<PreferenceRow> parse_preference_row(std::string_view json);

// Two whole texts or conversations, prompt and answer, of which the chosen one is better.
struct Comparison {
  std::variant<std::string, chat::Conversation> chosen, rejected;
  float margin = 0;  // by how much its score is to be ahead
};

// One JSON object: as a row of preferences, perhaps with a number as "margin"; without "prompt" both sides are whole, and
// need not begin alike. Refused as there; a margin that is no number.
Result<Comparison> parse_comparison(std::string_view json);

// An answer that is judged by itself.
struct JudgedText {
  std::string prompt, answer;
  bool desired = false;
};
struct JudgedMessages {
  chat::Conversation prompt;
  nlohmann::ordered_json answer;
  bool desired = false;
};
using JudgedRow = std::variant<JudgedText, JudgedMessages>;

// One JSON object: {"prompt", "completion", "label"}, label true where the answer is desired, with the same forms of prompt
// and answer; or a row of preferences, which gives two of them. Refused: a label that is neither true nor false.
Result<std::vector<JudgedRow>> parse_judgements(std::string_view json);

}  // namespace muster::data
