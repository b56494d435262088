// JSON from files that others wrote: the only place where it is parsed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster {

// The object that text holds. Refused, with source named: text that is not JSON, not an object, nested too deeply
// for any of these files, or names a key twice.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view source);

// The same, with the keys in the order of the text.
Result<nlohmann::ordered_json> parse_ordered_json_object(std::string_view text, std::string_view source);

// A value for a message: numbers, words and null as written (cut when long), else "a list" or "an object".
std::string shown(const nlohmann::json& value);

}  // namespace muster
