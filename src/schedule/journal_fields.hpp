// Values from the JSON objects that journals consist of.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "schedule/job.hpp"

namespace muster::schedule {

// Takes values out of an object and remembers the first that is not what it should be.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string_view source) : object_(object), source_(source) {}

  std::string text(const char* key) {
    const nlohmann::json& found = value(key);
    if (found.is_string()) return found.get<std::string>();
    note(key, "a text");
    return "";
  }
  std::string text_or_none(const char* key) { return object_.contains(key) ? text(key) : ""; }

  std::int64_t whole(const char* key) {
    const nlohmann::json& found = value(key);
    if (found.is_number_integer() && !(found.is_number_unsigned() && found.get<std::uint64_t>() > INT64_MAX))
      return found.get<std::int64_t>();
    note(key, "a whole number");
    return 0;
  }
  int small(const char* key) {
    const std::int64_t found = whole(key);
    if (found < INT32_MIN || found > INT32_MAX) note(key, "a number of at most 32 bits");
    return static_cast<int>(found);
  }
  int small_or(const char* key, int otherwise) { return object_.contains(key) ? small(key) : otherwise; }

  std::optional<Duration> span(const char* key) {
    if (!object_.contains(key)) return std::nullopt;
    return Duration(whole(key));
  }

  std::optional<Time> moment(const char* key) {
    if (!object_.contains(key)) return std::nullopt;
    return Time(Duration(whole(key)));
  }

  const nlohmann::json& list(const char* key) {
    const nlohmann::json& found = value(key);
    if (!found.is_array()) note(key, "a list");
    return found.is_array() ? found : none_;
  }

  std::vector<JobId> ids(const char* key) {
    std::vector<JobId> out;
    if (!object_.contains(key)) return out;
    for (const nlohmann::json& id : list(key)) {
      if (!id.is_string()) note(key, "a list of ids");
      out.push_back({id.is_string() ? id.get<std::string>() : ""});
    }
    return out;
  }

  void note(const char* key, std::string_view accepted) {
    if (problem_) return;
    problem_ = Error{Error::Kind::bad_input, fmt::format("{}: \"{}\" is not {}", source_, key, accepted),
                     "the journal was damaged or written by another version"};
  }
  void adopt(const Fields& inner) {
    if (!problem_) problem_ = inner.problem_;
  }
  const std::optional<Error>& problem() const { return problem_; }
  const nlohmann::json& object() const { return object_; }
  std::string_view source() const { return source_; }

 private:
  const nlohmann::json& value(const char* key) const {
    if (!object_.is_object()) return none_;
    const auto found = object_.find(key);
    return found == object_.end() ? none_ : *found;
  }

  const nlohmann::json& object_;
  std::string_view source_;
  std::optional<Error> problem_;
  inline static const nlohmann::json none_;
};

}  // namespace muster::schedule
