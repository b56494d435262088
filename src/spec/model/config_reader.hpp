// Typed reading of one JSON object's keys. Every key that cannot be read is noted, none stops the others.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace muster::spec {

class ConfigReader {
 public:
  using Keys = std::initializer_list<const char*>;  // spellings of one key

  // object and source must outlive this.
  ConfigReader(const nlohmann::json& object, std::string_view source) : object_(object), source_(source) {}

  // A whole number from lowest to highest. Absent: fallback. Nothing if the value is noted as a problem.
  std::optional<std::int64_t> whole(Keys keys, std::int64_t fallback, std::int64_t highest, std::int64_t lowest = 1);
  bool flag(const char* key, bool fallback);
  double positive(const char* key, double fallback);
  double probability(const char* key, double fallback);
  std::string text(const char* key, std::string_view fallback);

  // The value of the first spelling that is present; nullptr when none is. Two that disagree are a problem.
  const nlohmann::json* find(Keys keys);
  bool is_null(const char* key) const;

  void note(std::string_view key, std::string what, std::string remedy = {});
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  const nlohmann::json& object_;
  std::string_view source_;
  std::vector<Problem> problems_;
};

}  // namespace muster::spec
