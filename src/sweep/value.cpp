#include "sweep/value.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/text.hpp"
#include "spec/codec.hpp"

namespace muster::sweep {

std::optional<double> number_of(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

bool same(const Value& left, const Value& right) {
  const auto first = number_of(left), second = number_of(right);
  if (first && second) return *first == *second;
  return left == right;
}

const Value* find(const Settings& settings, std::string_view path) {
  for (const Setting& setting : settings)
    if (setting.path == path) return &setting.value;
  return nullptr;
}

std::string to_text(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return to_yaml(value);
}

std::string to_yaml(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  const std::string& text = std::get<std::string>(value);
  const std::string written = spec::write(text);
  if (written == text && parse_number<double>(text)) return fmt::format("\"{}\"", text);
  return written;
}

std::optional<Value> read_value(const Node& node) {
  if (node.kind != Node::Kind::scalar || spec::is_absent(node)) return std::nullopt;
  if (node.quoted) return Value(node.text);
  const std::string word = to_lower(node.text);
  if (word == "true" || word == "false") return Value(word == "true");
  if (const auto whole = parse_number<std::int64_t>(node.text)) return Value(*whole);
  if (const auto number = parse_number<double>(node.text); number && std::isfinite(*number)) return Value(*number);
  return Value(node.text);
}

nlohmann::ordered_json to_json(const Value& value) {
  return std::visit([](const auto& held) { return nlohmann::ordered_json(held); }, value);
}

std::optional<Value> value_from_json(const nlohmann::ordered_json& json) {
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_unsigned()) {
    const auto whole = json.get<std::uint64_t>();
    if (whole > static_cast<std::uint64_t>(INT64_MAX)) return Value(static_cast<double>(whole));
    return Value(static_cast<std::int64_t>(whole));
  }
  if (json.is_number_integer()) return Value(json.get<std::int64_t>());
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_string()) return Value(json.get<std::string>());
  return std::nullopt;
}

nlohmann::ordered_json to_json(const Settings& settings) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const Setting& setting : settings) object[setting.path] = to_json(setting.value);
  return object;
}

}  // namespace muster::sweep
