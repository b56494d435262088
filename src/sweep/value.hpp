// The values of a trial's settings.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/document.hpp"

namespace muster::sweep {

using Value = std::variant<bool, std::int64_t, double, std::string>;

struct Setting {
  std::string path;  // "training.learning_rate"
  Value value;
  bool operator==(const Setting&) const = default;
};

// The settings of one trial, in the order of the search space.
using Settings = std::vector<Setting>;

// A value as a number; nothing for words, true and false.
std::optional<double> number_of(const Value& value);
// 8 and 8.0 are the same; 8 and "8" are not.
bool same(const Value& left, const Value& right);
const Value* find(const Settings& settings, std::string_view path);

// As written on a command line: numbers with all their digits, words as they are.
std::string to_text(const Value& value);
// As written in YAML: a word that YAML would read as something else is quoted.
std::string to_yaml(const Value& value);

// The value of a scalar in a document: true, a number, or a word. Nothing for lists, tables and null.
std::optional<Value> read_value(const Node& node);

nlohmann::ordered_json to_json(const Value& value);
std::optional<Value> value_from_json(const nlohmann::ordered_json& json);
// {"training.learning_rate": 0.001, …}
nlohmann::ordered_json to_json(const Settings& settings);

}  // namespace muster::sweep
