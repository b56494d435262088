#include "spec/codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clean_text.hpp"
#include "base/text.hpp"

namespace muster::spec {
namespace {

bool is_scalar(const Node& node) { return node.kind == Node::Kind::scalar; }

// Text that YAML reads back as the same text without quotes.
bool is_plain(const std::string& text) {
  constexpr std::string_view safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  if (text.empty() || text.find_first_not_of(safe) != std::string::npos || text.front() == '-') return false;
  const std::string lower = to_lower(text);
  return lower != "null" && lower != "none" && lower != "true" && lower != "false";
}

// As JSON and YAML read it, and as a terminal may show it.
std::string in_double_quotes(const std::string& text) {
  return escaped_lines(nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

bool is_absent(const Node& node) {
  if (node.kind == Node::Kind::null) return true;
  return is_scalar(node) && !node.quoted && (node.text == "null" || node.text == "~" || node.text == "None");
}

Error unexpected(const Node& node, const std::string& accepted_values) {
  return {Error::Kind::bad_input, "is " + describe(node), "accepted: " + accepted_values};
}

std::string list_of_words(const std::vector<std::string>& words) { return join(words, ", "); }

Result<bool> read(const Node& node, const bool* type) {
  const std::string word = is_scalar(node) && !node.quoted ? to_lower(node.text) : "";
  if (word == "true") return true;
  if (word == "false") return false;
  return unexpected(node, accepted(type));
}

Result<std::int64_t> read(const Node& node, const std::int64_t* type) {
  if (is_scalar(node) && !node.quoted)
    if (const auto value = parse_number<std::int64_t>(node.text)) return *value;
  return unexpected(node, accepted(type));
}

Result<double> read(const Node& node, const double* type) {
  if (is_scalar(node) && !node.quoted)
    if (const auto value = parse_number<double>(node.text); value && std::isfinite(*value)) return *value;
  return unexpected(node, accepted(type));
}

Result<std::string> read(const Node& node, const std::string* type) {
  if (is_scalar(node) && !is_absent(node) && !trim(node.text).empty()) return node.text;
  return unexpected(node, accepted(type));
}

Result<std::vector<std::string>> read(const Node& node, const std::vector<std::string>* type) {
  if (is_absent(node)) return std::vector<std::string>{};
  std::vector<std::string> values;
  if (is_scalar(node)) {
    if (trim(node.text).empty()) return unexpected(node, accepted(type));
    for (const std::string& part : split(node.text, ',')) {
      if (trim(part).empty())
        return Error{Error::Kind::bad_input, fmt::format("is {}, with an empty entry", describe(node)),
                     "accepted: " + accepted(type)};
      values.emplace_back(trim(part));
    }
    return values;
  }
  if (node.kind != Node::Kind::list) return unexpected(node, accepted(type));
  for (const Node& item : node.items) {
    auto value = read(item, static_cast<const std::string*>(nullptr));
    if (!value)
      return Error{Error::Kind::bad_input, "holds an entry that " + value.error().what, "accepted: " + accepted(type)};
    values.push_back(std::move(*value));
  }
  return values;
}

Result<std::vector<std::int64_t>> read(const Node& node, const std::vector<std::int64_t>* type) {
  const auto texts = read(node, static_cast<const std::vector<std::string>*>(nullptr));
  if (!texts) return unexpected(node, accepted(type));
  std::vector<std::int64_t> numbers;
  for (const std::string& text : *texts) {
    const auto number = parse_number<std::int64_t>(text);
    if (!number || *number < 0)
      return Error{Error::Kind::bad_input, fmt::format("holds \"{}\"", text), "accepted: " + accepted(type)};
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<double>> read(const Node& node, const std::vector<double>* type) {
  const auto texts = read(node, static_cast<const std::vector<std::string>*>(nullptr));
  if (!texts) return unexpected(node, accepted(type));
  std::vector<double> numbers;
  for (const std::string& text : *texts) {
    const auto number = parse_number<double>(text);
    if (!number || !std::isfinite(*number))
      return Error{Error::Kind::bad_input, fmt::format("holds \"{}\"", text), "accepted: " + accepted(type)};
    numbers.push_back(*number);
  }
  return numbers;
}

Result<ExactTexts> read(const Node& node, const ExactTexts* type) {
  if (is_absent(node)) return ExactTexts{};
  if (is_scalar(node) && !node.text.empty()) return ExactTexts{{node.text}};
  if (node.kind != Node::Kind::list) return unexpected(node, accepted(type));
  ExactTexts found;
  for (const Node& item : node.items) {
    if (!is_scalar(item) || item.text.empty())
      return Error{Error::Kind::bad_input, "holds an entry that is " + describe(item), "accepted: " + accepted(type)};
    found.texts.push_back(item.text);
  }
  return found;
}

Result<DeviceMap> read(const Node& node, const DeviceMap* type) {
  if (is_scalar(node)) {
    if (auto rule = read(node, static_cast<const MapRule*>(nullptr))) return DeviceMap{*rule};
    // One device for everything: 0, cuda:0, disk.
    const std::string_view number =
        std::string_view(node.text).starts_with("cuda:") ? std::string_view(node.text).substr(5) : node.text;
    if (const auto index = parse_number<int>(number); index && *index >= 0)
      return DeviceMap{std::map<std::string, std::string>{{"", std::to_string(*index)}}};
    return unexpected(node, accepted(type));
  }
  if (node.kind != Node::Kind::table || node.entries.empty()) return unexpected(node, accepted(type));
  std::map<std::string, std::string> modules;
  for (const Node::Entry& entry : node.entries) {
    auto device = read(entry.value, static_cast<const std::string*>(nullptr));
    if (!device)
      return Error{Error::Kind::bad_input, fmt::format("puts {} on a device that {}", entry.key, device.error().what),
                   "accepted: " + accepted(type)};
    modules[entry.key] = std::move(*device);
  }
  return DeviceMap{std::move(modules)};
}

Result<DeviceLimits> read(const Node& node, const DeviceLimits* type) {
  if (is_absent(node)) return DeviceLimits{};
  if (node.kind != Node::Kind::table) return unexpected(node, accepted(type));
  DeviceLimits limits;
  for (const Node::Entry& entry : node.entries) {
    const auto index = parse_number<int>(entry.key);
    if (!(index && *index >= 0) && entry.key != "cpu" && entry.key != "disk")
      return Error{Error::Kind::bad_input, fmt::format("names the device \"{}\"", entry.key),
                   "accepted: GPU numbers, cpu and disk"};
    const auto limit = is_scalar(entry.value) ? parse_byte_count(entry.value.text)
                                              : Result<ByteCount>(unexpected(entry.value, "a size"));
    if (!limit)
      return Error{Error::Kind::bad_input,
                   fmt::format("gives device {} a limit that {}", entry.key,
                               is_scalar(entry.value) ? "is " + describe(entry.value) : limit.error().what),
                   limit.error().remedy};
    limits[entry.key] = *limit;
  }
  return limits;
}

Result<ParallelDegree> read(const Node& node, const ParallelDegree* type) {
  if (auto flag = read(node, static_cast<const bool*>(nullptr))) {
    if (!*flag) return ParallelDegree{1};
    return Error{Error::Kind::bad_input, "is true, which does not say over how many GPUs",
                 "accepted: a whole number such as 2; 1 or false is off"};
  }
  const auto degree = read(node, static_cast<const std::int64_t*>(nullptr));
  if (!degree || *degree < 1) return unexpected(node, accepted(type));
  return ParallelDegree{*degree};
}

std::string write(bool value) { return value ? "true" : "false"; }
std::string write(std::int64_t value) { return std::to_string(value); }
std::string write(double value) { return fmt::format("{}", value); }

std::string write(const std::string& value) {
  if (is_plain(value)) return value;
  return in_double_quotes(value);
}

std::string write(const std::vector<std::string>& value) {
  std::vector<std::string> items;
  for (const std::string& item : value) items.push_back(write(item));
  return fmt::format("[{}]", join(items, ", "));
}

std::string write(const std::vector<std::int64_t>& value) { return fmt::format("[{}]", fmt::join(value, ", ")); }

std::string write(const std::vector<double>& value) { return fmt::format("[{}]", fmt::join(value, ", ")); }

// Quoted throughout, so that no part of it is read as anything else.
std::string write(const ExactTexts& value) {
  std::vector<std::string> items;
  for (const std::string& text : value.texts)
    items.push_back(in_double_quotes(text));
  return fmt::format("[{}]", join(items, ", "));
}

std::string write(const DeviceMap& value) {
  if (const auto* rule = std::get_if<MapRule>(&value)) return write(*rule);
  std::vector<std::string> items;
  for (const auto& [module, device] : std::get<std::map<std::string, std::string>>(value))
    items.push_back(write(module) + ": " + write(device));
  return fmt::format("{{{}}}", join(items, ", "));
}

std::string write(const DeviceLimits& value) {
  std::vector<std::string> items;
  for (const auto& [device, limit] : value) items.push_back(fmt::format("{}: {}", device, limit.value));
  return fmt::format("{{{}}}", join(items, ", "));
}

std::string write(const ParallelDegree& value) { return std::to_string(value.value); }

std::string accepted(const bool*) { return "true or false"; }
std::string accepted(const std::int64_t*) { return "a whole number"; }
std::string accepted(const double*) { return "a number"; }
std::string accepted(const std::string*) { return "text"; }
std::string accepted(const std::vector<std::string>*) { return "a list, as in [a, b] or a,b"; }
std::string accepted(const std::vector<std::int64_t>*) { return "a list of whole numbers from 0, as in [1, 2] or 1,2"; }
std::string accepted(const std::vector<double>*) { return "a list of numbers, as in [1, 0.5] or 1,0.5"; }
std::string accepted(const ExactTexts*) { return R"(a list of texts, as in ["\n\n", "User:"], or one text)"; }
std::string accepted(const DeviceMap*) {
  return accepted(static_cast<const MapRule*>(nullptr)) + ", a GPU's number, or a table of module: device";
}
std::string accepted(const DeviceLimits*) { return "a table of device: size, as in {0: 10GiB, cpu: 30GiB}"; }
std::string accepted(const ParallelDegree*) { return "a whole number, 1 or more; false is 1"; }

}  // namespace muster::spec
