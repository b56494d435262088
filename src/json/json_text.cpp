#include "json/json_text.hpp"

#include <fmt/format.h>

#include <set>
#include <vector>

namespace muster {
namespace {

using nlohmann::json;
constexpr std::size_t deepest = 64;
constexpr std::size_t longest_shown = 60;

bool is_too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        quoted = false;
    } else if (text[i] == '"') {
      quoted = true;
    } else if (text[i] == '{' || text[i] == '[') {
      if (++depth > deepest) return true;
    } else if ((text[i] == '}' || text[i] == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

// Sees the parser's events and remembers the first key that an object names twice.
class KeyWatch {
 public:
  template <class Json>
  bool operator()(int, json::parse_event_t event, Json& parsed) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end && !open_.empty()) open_.pop_back();
    if (event == json::parse_event_t::key && !open_.empty() && twice_.empty()) {
      const auto& key = parsed.template get_ref<const std::string&>();
      if (!open_.back().insert(key).second) twice_.push_back(key);
    }
    return true;
  }
  const std::vector<std::string>& twice() const { return twice_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::vector<std::string> twice_;  // at most one
};

Error refusal(std::string_view source, std::string what) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", source, what),
          "check that the file is whole and the right one"};
}

template <class Json>
Result<Json> parse_object(std::string_view text, std::string_view source) {
  if (is_too_deep(text)) return refusal(source, fmt::format("lists and objects nested deeper than {}", deepest));
  KeyWatch watch;
  Json parsed;
  try {
    parsed =
        Json::parse(text, [&](int depth, json::parse_event_t event, Json& part) { return watch(depth, event, part); });
  } catch (const json::parse_error& failure) {
    return refusal(source, fmt::format("invalid JSON at byte {}", failure.byte));
  } catch (const json::exception& failure) {  // a number out of range
    return refusal(source, fmt::format("invalid JSON: {}", failure.what()));
  }
  if (!parsed.is_object()) return refusal(source, "holds no JSON object");
  if (!watch.twice().empty()) return refusal(source, fmt::format("names {} twice", shown(json(watch.twice().front()))));
  return parsed;
}

}  // namespace

Result<json> parse_json_object(std::string_view text, std::string_view source) {
  return parse_object<json>(text, source);
}

Result<nlohmann::ordered_json> parse_ordered_json_object(std::string_view text, std::string_view source) {
  return parse_object<nlohmann::ordered_json>(text, source);
}

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() <= longest_shown) return text;
  std::size_t cut = longest_shown;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // not inside a character
  return text.substr(0, cut) + "…";
}

}  // namespace muster
