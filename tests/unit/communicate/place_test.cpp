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

TEST(Place, InAGroupCountsFromItsFirstRankAndIsNamedByTheJob) {
  Place place;
  place.rank = 5;
  place.size = 6;
  const Place inside = place_in_group(place, 4, 2);
  EXPECT_EQ(inside.rank, 1);
  EXPECT_EQ(inside.size, 2);
  EXPECT_EQ(inside.job_rank(0), 4);
  EXPECT_EQ(inside.job_rank(inside.rank), 5);
  EXPECT_NE(inside.group, place_in_group(place, 4, 1).group);
  EXPECT_NE(inside.group, place.group);
}

}  // namespace
}  // namespace muster::communicate
