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
#include "json/member_reader.hpp"
#include "schedule/job.hpp"

namespace muster::schedule {

// Takes values out of an object; a journal's words and times on top of MemberReader.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string_view source) : members_(object), source_(source) {}

  std::string text(const char* key) { return members_.text(key); }
  std::string text_or_none(const char* key) { return members_.contains(key) ? text(key) : ""; }

  std::int64_t whole(const char* key) { return members_.whole(key); }
  int small(const char* key) {
    const std::int64_t found = whole(key);
    if (found < INT32_MIN || found > INT32_MAX) note(key, "a number of at most 32 bits");
    return static_cast<int>(found);
  }
  int small_or(const char* key, int otherwise) { return members_.contains(key) ? small(key) : otherwise; }

  std::optional<Duration> span(const char* key) {
    if (!members_.contains(key)) return std::nullopt;
    return Duration(whole(key));
  }

  std::optional<Time> moment(const char* key) {
    if (!members_.contains(key)) return std::nullopt;
    return Time(Duration(whole(key)));
  }

  const nlohmann::json& list(const char* key) { return members_.list(key); }

  std::vector<JobId> ids(const char* key) {
    std::vector<JobId> out;
    if (!members_.contains(key)) return out;
    for (const nlohmann::json& id : list(key)) {
      if (!id.is_string()) note(key, "a list of ids");
      out.push_back({id.is_string() ? id.get<std::string>() : ""});
    }
    return out;
  }

  void note(const char* key, std::string_view accepted) { members_.note(key, accepted); }
  void adopt(const Fields& inner) { members_.adopt(inner.members_); }
  std::optional<Error> problem() const {
    const auto& problem = members_.problem();
    if (!problem) return std::nullopt;
    return Error{Error::Kind::bad_input, fmt::format("{}: \"{}\" is not {}", source_, problem->key, problem->wanted),
                 "the journal was damaged or written by another version"};
  }
  const nlohmann::json& object() const { return members_.object(); }
  std::string_view source() const { return source_; }

 private:
  MemberReader members_;
  std::string_view source_;
};

}  // namespace muster::schedule
