// How each kind of value is read from text, written to text and named in messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/document.hpp"
#include "base/result.hpp"
#include "spec/environment/evaluation_environments.hpp"
#include "spec/values.hpp"

namespace muster::spec {

// An error's what names what was found ("is a list"); its remedy says what is accepted.
Result<bool> read(const Node& node, const bool*);
Result<std::int64_t> read(const Node& node, const std::int64_t*);
Result<double> read(const Node& node, const double*);
Result<std::string> read(const Node& node, const std::string*);
Result<std::vector<std::string>> read(const Node& node, const std::vector<std::string>*);
Result<std::vector<std::int64_t>> read(const Node& node, const std::vector<std::int64_t>*);
Result<std::vector<double>> read(const Node& node, const std::vector<double>*);
Result<ExactTexts> read(const Node& node, const ExactTexts*);
Result<DeviceMap> read(const Node& node, const DeviceMap*);
Result<DeviceLimits> read(const Node& node, const DeviceLimits*);
Result<ParallelDegree> read(const Node& node, const ParallelDegree*);

std::string write(bool value);
std::string write(std::int64_t value);
std::string write(double value);
std::string write(const std::string& value);
std::string write(const std::vector<std::string>& value);
std::string write(const std::vector<std::int64_t>& value);
std::string write(const std::vector<double>& value);
std::string write(const ExactTexts& value);
std::string write(const DeviceMap& value);
std::string write(const DeviceLimits& value);
std::string write(const ParallelDegree& value);

std::string accepted(const bool*);
std::string accepted(const std::int64_t*);
std::string accepted(const double*);
std::string accepted(const std::string*);
std::string accepted(const std::vector<std::string>*);
std::string accepted(const std::vector<std::int64_t>*);
std::string accepted(const std::vector<double>*);
std::string accepted(const ExactTexts*);
std::string accepted(const DeviceMap*);
std::string accepted(const DeviceLimits*);
std::string accepted(const ParallelDegree*);

// Whether the node says "no value": nothing, null, ~ or None.
bool is_absent(const Node& node);

Error unexpected(const Node& node, const std::string& accepted_values);
std::string list_of_words(const std::vector<std::string>& words);

template <class Enum>
requires std::is_enum_v<Enum> std::string accepted(const Enum*) {
  std::vector<std::string> texts;
  std::vector<Enum> named;
  for (const auto& word : words(Enum{})) {
    if (std::find(named.begin(), named.end(), word.value) != named.end()) continue;
    named.push_back(word.value);
    texts.emplace_back(word.text);
  }
  return list_of_words(texts);
}

template <class Enum>
requires std::is_enum_v<Enum> Result<Enum> read(const Node& node, const Enum* type) {
  if (node.kind == Node::Kind::scalar)
    for (const auto& word : words(Enum{}))
      if (word.text == node.text) return word.value;
  return unexpected(node, accepted(type));
}

template <class Enum>
requires std::is_enum_v<Enum> std::string write(Enum value) {
  for (const auto& word : words(Enum{}))
    if (word.value == value) return std::string(word.text);
  return {};
}

// A list of words; one alone may stand without brackets.
template <class Enum>
requires std::is_enum_v<Enum> std::string accepted(const std::vector<Enum>*) {
  return accepted(static_cast<const Enum*>(nullptr)) + "; several as in [a, b] or a,b";
}

template <class Enum>
requires std::is_enum_v<Enum> Result<std::vector<Enum>> read(const Node& node, const std::vector<Enum>* type) {
  const auto texts = read(node, static_cast<const std::vector<std::string>*>(nullptr));
  if (!texts || texts->empty()) return unexpected(node, accepted(type));
  std::vector<Enum> values;
  for (const std::string& text : *texts) {
    const auto known = words(Enum{});
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& word) { return word.text == text; });
    if (found == known.end())
      return Error{Error::Kind::bad_input, "holds \"" + text + "\"", "accepted: " + accepted(type)};
    values.push_back(found->value);
  }
  return values;
}

template <class Enum>
requires std::is_enum_v<Enum> std::string write(const std::vector<Enum>& values) {
  std::vector<std::string> texts;
  for (const Enum value : values) texts.push_back(write(value));
  return write(texts);
}

template <class Value>
Result<std::optional<Value>> read(const Node& node, const std::optional<Value>*) {
  if (is_absent(node)) return std::optional<Value>{};
  auto value = read(node, static_cast<const Value*>(nullptr));
  if (!value) return value.error();
  return std::optional<Value>{std::move(*value)};
}

template <class Value>
std::string write(const std::optional<Value>& value) {
  return value ? write(*value) : "null";
}

template <class Value>
std::string accepted(const std::optional<Value>*) {
  return accepted(static_cast<const Value*>(nullptr));
}

}  // namespace muster::spec
