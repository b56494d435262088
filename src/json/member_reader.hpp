// Members of JSON objects that others may have written or damaged.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The member if it is there and of that kind, else nothing: for objects of which the rest is of use without it. Anything
// but an object has no members.
const nlohmann::json* find_member(const nlohmann::json& object, const char* key);
std::optional<std::string> find_text(const nlohmann::json& object, const char* key);
std::optional<std::int64_t> find_whole(const nlohmann::json& object, const char* key);

// Takes members that have to be right. The first that is not is remembered and read as nothing (zero, an empty text),
// so that a reader takes everything and then asks once.
class MemberReader {
 public:
  static constexpr std::size_t any_length = std::numeric_limits<std::size_t>::max();
  static constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();

  struct Problem {
    std::string key;
    const nlohmann::json* seen = nullptr;  // in the object; nullptr: no such member
    std::string wanted;                    // "a whole number from 0 to 7"
  };

  // The object must outlive this and its problem.
  explicit MemberReader(const nlohmann::json& object) : object_(&object) {}

  bool contains(const char* key) const { return find_member(*object_, key) != nullptr; }
  bool has(const char* key) const;  // and it is not null

  std::string text(const char* key, std::size_t longest = any_length);
  std::int64_t whole(const char* key, std::int64_t from = lowest, std::int64_t to = highest);
  template <std::signed_integral Integer>
  Integer whole_as(const char* key) {
    return static_cast<Integer>(whole(key, std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max()));
  }
  double number(const char* key);
  bool truth(const char* key);
  std::vector<std::string> texts(const char* key);
  const nlohmann::json& list(const char* key);  // an empty one where it is not one

  // What a caller finds wrong itself; `wanted` completes "must be".
  void note(const char* key, std::string_view wanted);
  // The problem of an inner object's reader, if none came before it.
  void adopt(const MemberReader& inner);

  const std::optional<Problem>& problem() const { return problem_; }
  const nlohmann::json& object() const { return *object_; }

 private:
  const nlohmann::json* object_;
  std::optional<Problem> problem_;
};

// "\"rank\" is \"three\", and must be a whole number", as fields.hpp says it.
std::string to_string(const MemberReader::Problem& problem);

}  // namespace muster
