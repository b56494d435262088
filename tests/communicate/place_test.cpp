#include "communicate/place.hpp"

#include <gtest/gtest.h>

#include <map>

namespace muster::communicate {
namespace {

using Variables = std::map<std::string, std::string>;

Result<Place> read(const Variables& variables) {
  return read_place([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

const Variables good{
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};

TEST(Place, IsReadFromTheVariablesOfTorchrun) {
  const auto place = read(good);
  ASSERT_TRUE(place);
  EXPECT_EQ(*place, (Place{1, 4, 1, "127.0.0.1", 29500}));
}

TEST(Place, OneRankNeedsNoStore) { EXPECT_TRUE(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}})); }

TEST(Place, AVariableThatIsMissingOrMakesNoSenseIsNamed) {
  for (const auto& [name, value] : good) {
    Variables without = good;
    without.erase(name);
    const auto refused = read(without);
    ASSERT_FALSE(refused) << name;
    EXPECT_NE(refused.error().what.find(name + " is not set"), std::string::npos) << refused.error().what;
    if (name == "MASTER_ADDR") continue;
    for (const char* nonsense : {"", "-1", "four", "70000000"}) {
      Variables changed = good;
      changed[name] = nonsense;
      if (std::string(nonsense) == "70000000" && (name == "WORLD_SIZE" || name == "LOCAL_RANK")) continue;
      EXPECT_FALSE(read(changed)) << name << "=" << nonsense;
    }
  }
}

}  // namespace
}  // namespace muster::communicate
