// Tests of the keeper, with control groups where the machine allows them, and without.
#pragma once

#include <sys/prctl.h>

#include "launch/keeper/descendants.hpp"
#include "observed_keeper.hpp"

namespace muster::launch {

// This process is a sub-reaper: whatever a test leaves behind falls to it, and is seen at the end.
class KeeperTest : public ::testing::TestWithParam<ControlGroups> {
 protected:
  void SetUp() override { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  void TearDown() override {
    for (const pid_t child : children_of_this_process()) {
      // A keeper that lost its launcher may still be about to end.
      EXPECT_TRUE(wait_for_end(open_process(child), std::chrono::steady_clock::now() + long_enough)) << "left behind";
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    EXPECT_EQ(children_of_this_process(), std::vector<pid_t>{}) << "left behind";
  }
};

inline std::string name_of(const ::testing::TestParamInfo<ControlGroups>& info) {
  return info.param == ControlGroups::never ? "WithoutControlGroup" : "WithControlGroup";
}
#define MUSTER_WITH_AND_WITHOUT_CONTROL_GROUPS(suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(Keeper, suite, ::testing::Values(ControlGroups::where_allowed, ControlGroups::never), \
                           name_of)

}  // namespace muster::launch
