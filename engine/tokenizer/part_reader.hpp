// One object of tokenizer.json, read key by key. What is missing, of the wrong kind or not known becomes a problem with
// its place; reading goes on, so that a user sees all of them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace muster::tokenizer {

class PartReader {
 public:
  // where: "tokenizer.json: pre_tokenizer". An empty object takes the place of anything that is not an object.
  PartReader(const nlohmann::json& part, std::string where, std::vector<Problem>& problems);

  // The value of "type".
  std::string type();
  bool has(std::string_view key);  // present and not null
  bool boolean(std::string_view key);
  bool boolean(std::string_view key, bool fallback);  // where the key may be missing or null
  std::string text(std::string_view key);
  std::int64_t number(std::string_view key, std::int64_t least, std::int64_t most);
  // The word's place among those that are accepted; 0 with a problem.
  std::size_t choice(std::string_view key, std::initializer_list<std::string_view> accepted);
  // A text of exactly one character.
  std::string character(std::string_view key);
  // The elements of a list, or the value of a key, each to be read by a reader of its own.
  std::vector<PartReader> list(std::string_view key);
  PartReader part(std::string_view key);
  const nlohmann::json& any(std::string_view key);  // null where missing; the caller checks it

  // Every key that was not asked for is a problem. To be called once, last.
  void finish();
  void complain(std::string what, std::string remedy);
  void complain(const Error& error) { complain(error.what, error.remedy); }
  void refuse_type(std::string_view type, std::string_view known);
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json* find(std::string_view key, std::string_view wanted);

  const nlohmann::json* part_;
  std::string where_;
  std::vector<Problem>* problems_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace muster::tokenizer
