// Values from JSON, and JSON from values as Python's json.dumps writes it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "chat/value.hpp"

namespace muster::chat {

// Nothing when it is nested too deep.
std::optional<Value> from_json(const nlohmann::ordered_json& json);

struct JsonStyle {
  bool ascii_only = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; absent: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Nothing, and why, where a value has no JSON (an undefined one, a function) or takes more than `most` bytes.
std::optional<std::string> to_json(const Value& value, const JsonStyle& style, std::size_t most, std::string& what);

}  // namespace muster::chat
