#include "tokenizer/part_reader.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

using nlohmann::json;

const json& nothing() {
  static const json null;
  return null;
}

const json& empty_object() {
  static const json object = json::object();
  return object;
}

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "…";
  return text;
}

}  // namespace

PartReader::PartReader(const json& part, std::string where, std::vector<Problem>& problems)
    : part_(&part), where_(std::move(where)), problems_(&problems) {
  if (part.is_object()) return;
  complain(fmt::format("{} stands where an object is expected", shown(part)), "check that the file is whole");
  part_ = &empty_object();
}

void PartReader::complain(std::string what, std::string remedy) {
  problems_->push_back({where_, std::move(what), std::move(remedy)});
}

const json* PartReader::find(std::string_view key, std::string_view wanted) {
  asked_.emplace(key);
  const auto found = part_->find(key);
  if (found != part_->end()) return &*found;
  if (!wanted.empty()) complain(fmt::format("\"{}\" is missing", key), fmt::format("it is {}", wanted));
  return nullptr;
}

std::string PartReader::type() { return text("type"); }

bool PartReader::has(std::string_view key) {
  const json* value = find(key, "");
  return value != nullptr && !value->is_null();
}

bool PartReader::boolean(std::string_view key) {
  const json* value = find(key, "true or false");
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  complain(fmt::format("\"{}\" is {}", key, shown(*value)), "it is true or false");
  return false;
}

bool PartReader::boolean(std::string_view key, bool fallback) { return has(key) ? boolean(key) : fallback; }

std::string PartReader::text(std::string_view key) {
  const json* value = find(key, "a text");
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  complain(fmt::format("\"{}\" is {}", key, shown(*value)), "it is a text");
  return {};
}

std::int64_t PartReader::number(std::string_view key, std::int64_t least, std::int64_t most) {
  const std::string wanted = fmt::format("a whole number from {} to {}", least, most);
  const json* value = find(key, wanted);
  if (value == nullptr) return least;
  if (value->is_number_integer() && !(value->is_number_unsigned() && value->get<std::uint64_t>() >> 62U != 0)) {
    const auto number = value->get<std::int64_t>();
    if (number >= least && number <= most) return number;
  }
  complain(fmt::format("\"{}\" is {}", key, shown(*value)), "it is " + wanted);
  return least;
}

std::size_t PartReader::choice(std::string_view key, std::initializer_list<std::string_view> accepted) {
  const std::string word = text(key);
  std::size_t place = 0;
  std::string words;
  for (const std::string_view candidate : accepted) {
    if (candidate == word) return place;
    words += (place++ == 0 ? "" : ", ") + std::string(candidate);
  }
  if (find(key, "") != nullptr) complain(fmt::format("\"{}\" is \"{}\"", key, word), "known: " + words);
  return 0;
}

std::string PartReader::character(std::string_view key) {
  std::string read = text(key);
  if (!read.empty() && character_length(read[0]) == read.size()) return read;
  if (find(key, "") != nullptr) complain(fmt::format("\"{}\" is \"{}\"", key, read), "it is one character");
  return " ";
}

std::vector<PartReader> PartReader::list(std::string_view key) {
  const json* value = find(key, "a list");
  std::vector<PartReader> readers;
  if (value == nullptr) return readers;
  if (!value->is_array()) {
    complain(fmt::format("\"{}\" is {}", key, shown(*value)), "it is a list");
    return readers;
  }
  for (std::size_t i = 0; i < value->size(); ++i)
    readers.emplace_back((*value)[i], fmt::format("{}.{}[{}]", where_, key, i), *problems_);
  return readers;
}

PartReader PartReader::part(std::string_view key) {
  const json* value = find(key, "an object");
  return PartReader(value == nullptr ? empty_object() : *value, fmt::format("{}.{}", where_, key), *problems_);
}

const json& PartReader::any(std::string_view key) {
  const json* value = find(key, "");
  return value == nullptr ? nothing() : *value;
}

void PartReader::finish() {
  for (const auto& [key, value] : part_->items())
    if (!asked_.contains(key))
      complain(fmt::format("the key \"{}\" is not known", key), "take it out if it has no effect on the tokens");
}

void PartReader::refuse_type(std::string_view type, std::string_view known) {
  for (const auto& [key, value] : part_->items()) asked_.insert(key);
  complain(fmt::format("\"{}\" is not built", type), fmt::format("known: {}", known));
}

}  // namespace muster::tokenizer
