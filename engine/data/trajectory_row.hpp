// A row that an episode left: what was said to the model, what it answered, and what each answer earned.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "chat/conversation.hpp"

namespace muster::data {

struct TrajectoryRow {
  std::vector<nlohmann::ordered_json> said;     // lists of messages: before each answer, and after the last one
  std::vector<nlohmann::ordered_json> answers;  // the assistant's messages; one less than there is in said
  bool has_rewards = false;
  std::optional<double> reward;  // the sum of its steps' rewards; absent: one of them is not known

  // All messages in order, for a chat template.
  chat::Conversation conversation() const;
  // What the model read before an answer, where there is no chat template: as muster collect has it.
  std::string text_before(std::size_t answer) const;
  // What was said to it then, a message a line; empty where nothing was.
  std::string text_after(std::size_t answer) const;
};

// {"observations": [{"messages": [{"role", "content"}], …}], "actions": [{"role": "assistant", "content"}],
// "rewards"?: [{"value": number or null}]}. An observation may repeat everything that was said before it. Messages of the
// role "environment" are taken for the user's. Refused: lists of other lengths, an observation or answer that is none.
Result<TrajectoryRow> parse_trajectory(nlohmann::ordered_json row);

}  // namespace muster::data
