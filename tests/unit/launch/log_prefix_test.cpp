#include <gtest/gtest.h>

#include "launch/log_folder.hpp"

namespace muster::launch {
namespace {

std::string prefix(std::string_view pattern) { return log_prefix(pattern, "default", 11, 3); }

TEST(LogPrefix, FillsInRoleAndRanks) {
  EXPECT_EQ(prefix("[${role_name}${local_rank}]:"), "[default3]:");
  EXPECT_EQ(prefix("$rank/$local_rank "), "11/3 ");
}

TEST(LogPrefix, TreatsTheRestAsPythonsTemplateDoes) {
  // Each right side is what string.Template(left).safe_substitute(role_name="default", rank=11, local_rank=3) gives.
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"$$rank", "$rank"},
      {"$$$rank", "$11"},
      {"$ranks", "$ranks"},
      {"${ranks}", "${ranks}"},
      {"${rank", "${rank"},
      {"${ rank}", "${ rank}"},
      {"${}", "${}"},
      {"$Rank", "$Rank"},
      {"cost: 5$", "cost: 5$"},
      {"$1 $rank.x", "$1 11.x"},
      {"${rank}0", "110"},
      {"$rank$rank", "1111"},
  };
  for (const auto& [pattern, expected] : cases) EXPECT_EQ(prefix(pattern), expected) << pattern;
}

}  // namespace
}  // namespace muster::launch
