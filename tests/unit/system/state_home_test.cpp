#include "system/state_home.hpp"

#include <gtest/gtest.h>

#include "testing/environment_variable.hpp"

namespace muster {
namespace {

TEST(StateHome, IsMusterStateAsAnAbsolutePath) {
  const testing::EnvironmentVariable home("HOME", "/home/alice");
  const testing::EnvironmentVariable state("MUSTER_STATE", "here");
  EXPECT_EQ(*state_home(), std::filesystem::current_path() / "here");
}

TEST(StateHome, IsBelowTheHomeFolderWhereNothingElseIsSaid) {
  const testing::EnvironmentVariable home("HOME", "/home/alice");
  const testing::EnvironmentVariable state("MUSTER_STATE", "");
  EXPECT_EQ(*state_home(), "/home/alice/.local/state/muster");
}

TEST(StateHome, IsNowhereWithoutAHomeFolder) {
  const testing::EnvironmentVariable home("HOME", std::nullopt);
  const testing::EnvironmentVariable state("MUSTER_STATE", std::nullopt);
  EXPECT_FALSE(state_home());
}

}  // namespace
}  // namespace muster
