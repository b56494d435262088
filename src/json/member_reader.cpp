#include "json/member_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json/json_text.hpp"

namespace muster {
namespace {

using nlohmann::json;

std::optional<std::int64_t> whole_number(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) return std::nullopt;
  return value.get<std::int64_t>();
}

std::string range_text(std::int64_t from, std::int64_t to) {
  if (from == MemberReader::lowest && to == MemberReader::highest) return "a whole number";
  return fmt::format("a whole number from {} to {}", from, to);
}

}  // namespace

const json* find_member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::optional<std::string> find_text(const json& object, const char* key) {
  const json* found = find_member(object, key);
  return found != nullptr && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
}

std::optional<std::int64_t> find_whole(const json& object, const char* key) {
  const json* found = find_member(object, key);
  return found != nullptr ? whole_number(*found) : std::nullopt;
}

bool MemberReader::has(const char* key) const {
  const json* found = find_member(*object_, key);
  return found != nullptr && !found->is_null();
}

std::string MemberReader::text(const char* key, std::size_t longest) {
  const json* found = find_member(*object_, key);
  if (found != nullptr && found->is_string() && found->get_ref<const std::string&>().size() <= longest)
    return found->get<std::string>();
  note(key, longest == any_length ? "a text" : fmt::format("a text of at most {} bytes", longest));
  return {};
}

std::int64_t MemberReader::whole(const char* key, std::int64_t from, std::int64_t to) {
  const json* found = find_member(*object_, key);
  const auto number = found != nullptr ? whole_number(*found) : std::nullopt;
  if (number && *number >= from && *number <= to) return *number;
  note(key, range_text(from, to));
  return std::max<std::int64_t>(from, 0);
}

double MemberReader::number(const char* key) {
  const json* found = find_member(*object_, key);
  if (found != nullptr && found->is_number()) return found->get<double>();
  note(key, "a number");
  return 0;
}

bool MemberReader::truth(const char* key) {
  const json* found = find_member(*object_, key);
  if (found != nullptr && found->is_boolean()) return found->get<bool>();
  note(key, "true or false");
  return false;
}

std::vector<std::string> MemberReader::texts(const char* key) {
  std::vector<std::string> out;
  for (const json& item : list(key)) {
    if (!item.is_string()) note(key, "a list of texts");
    out.push_back(item.is_string() ? item.get<std::string>() : "");
  }
  return out;
}

const json& MemberReader::list(const char* key) {
  static const json empty = json::array();
  const json* found = find_member(*object_, key);
  if (found != nullptr && found->is_array()) return *found;
  note(key, "a list");
  return empty;
}

void MemberReader::note(const char* key, std::string_view wanted) {
  if (!problem_) problem_ = Problem{key, find_member(*object_, key), std::string(wanted)};
}

void MemberReader::adopt(const MemberReader& inner) {
  if (!problem_) problem_ = inner.problem_;
}

std::string to_string(const MemberReader::Problem& problem) {
  if (problem.seen == nullptr) return fmt::format("has no \"{}\"", problem.key);
  return fmt::format("\"{}\" is {}, and must be {}", problem.key, shown(*problem.seen), problem.wanted);
}

}  // namespace muster
