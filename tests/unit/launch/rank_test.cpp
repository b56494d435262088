#include "launch/rank.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace muster::launch {
namespace {

using Json = nlohmann::json;
using Environment = std::map<std::string, std::string, std::less<>>;

Result<RankFacts> rank_in(const Environment& environment) {
  return rank_from([&](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

std::optional<int> optional_number(const Json& json, const char* key) {
  return json.contains(key) ? std::optional(json.at(key).get<int>()) : std::nullopt;
}

RankFacts facts_of(const Json& means) {
  return {means.value("rank", 0), means.value("world_size", 1), optional_number(means, "local_rank"),
          optional_number(means, "local_world_size"), means.value("launched", false)};
}

Json table() {
  std::ifstream file(MUSTER_FIXTURES "/rank_environments.json");
  return Json::parse(file).at("cases");
}

TEST(Rank, IsWhatTheTableOfEnvironmentsSays) {
  int seen = 0;
  for (const Json& entry : table()) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const auto rank = rank_in(entry.at("environment").get<Environment>());
    ++seen;
    if (entry.contains("means")) {
      ASSERT_TRUE(rank) << rank.error().what;
      EXPECT_EQ(*rank, facts_of(entry.at("means")));
      continue;
    }
    ASSERT_FALSE(rank);
    EXPECT_EQ(rank.error().kind, Error::Kind::bad_input);
    for (const auto& part : entry.at("error"))
      EXPECT_NE(to_string(rank.error()).find(part.get<std::string>()), std::string::npos) << to_string(rank.error());
  }
  EXPECT_GT(seen, 20);
}

// Sets variables of this process and takes them back.
class ProcessVariables {
 public:
  explicit ProcessVariables(Environment variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ProcessVariables(const ProcessVariables&) = delete;
  ProcessVariables& operator=(const ProcessVariables&) = delete;
  ~ProcessVariables() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }

 private:
  Environment variables_;
};

TEST(Rank, OfThisProcessWithoutALaunchIsTheFirstAndOnly) {
  EXPECT_FALSE(*is_distributed_available());
  EXPECT_EQ(*get_rank(), 0);
  EXPECT_EQ(*get_world_size(), 1);
  EXPECT_EQ(*get_local_rank(), 0);
  EXPECT_TRUE(*is_main_process());
}

TEST(Rank, OfThisProcessIsReadFromItsEnvironmentOnEachCall) {
  const ProcessVariables variables({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}});
  EXPECT_TRUE(*is_distributed_available());
  EXPECT_EQ(*get_rank(), 5);
  EXPECT_EQ(*get_world_size(), 8);
  EXPECT_EQ(*get_local_rank(), 1);
  EXPECT_FALSE(*is_main_process());
}

TEST(Rank, OfThisProcessIsAnErrorWhereTheEnvironmentIsOne) {
  const ProcessVariables variables({{"RANK", "five"}, {"WORLD_SIZE", "8"}});
  EXPECT_FALSE(get_rank());
  EXPECT_FALSE(is_main_process());
}

}  // namespace
}  // namespace muster::launch
