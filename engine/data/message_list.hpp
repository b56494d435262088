// Messages in a row of a user's data.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.hpp"

namespace muster::data {

// The value of `key`: a list of messages, at least one. Refused: a message with an unknown role, or without content (an
// assistant's with tool calls or reasoning needs none).
Result<void> check_messages(std::string_view key, const nlohmann::ordered_json& messages);

}  // namespace muster::data
