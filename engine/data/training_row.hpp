// One row of a user's data, whichever form it has.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"
#include "chat/conversation.hpp"
#include "data/trajectory_row.hpp"

namespace muster::data {

// All of it is trained on.
struct TextRow {
  std::string text;
};

// The completion is trained on.
struct PairRow {
  std::string prompt;
  std::string completion;
};

// What the assistant says is trained on.
struct ConversationRow {
  chat::Conversation conversation;
};

using TrainingRow = std::variant<TextRow, PairRow, ConversationRow, TrajectoryRow>;

// The most bytes of a row: reading one takes some thirty times as much memory, and threads read several at once.
constexpr std::size_t longest_row = std::size_t{32} << 20;

// One JSON object: {"text"}, {"prompt", "completion"}, {"messages", "tools"?, "documents"?, "template_variables"?},
// {"instruction", "input"?, "output"} or a trajectory (trajectory_row.hpp). Refused: a row that has parts of two forms, or not all of one; an empty
// completion; a message with an unknown role, or without content (an assistant's with tool calls or reasoning needs
// none); more than longest_row bytes.
Result<TrainingRow> parse_training_row(std::string_view json);

// The prompt that Stanford's Alpaca was trained with; input may be empty.
std::string alpaca_prompt(std::string_view instruction, std::string_view input);

}  // namespace muster::data
