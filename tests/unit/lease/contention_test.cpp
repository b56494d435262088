#include "testing/lease_contention.hpp"

#include "lease_fixture.hpp"

namespace muster::lease {
namespace {

class ContentionTest : public LeaseTest {};

TEST_F(ContentionTest, TwoHundredProcessesNeverShareOneOfEightGpus) {
  Contention contention;
  contention.rounds = 40;
  contention.seed = 7;
  contention.folder = folder_;
  const auto outcome = contention.run();
  EXPECT_EQ(outcome.double_grants, 0U);
  EXPECT_EQ(outcome.errors, 0U);
  EXPECT_EQ(outcome.leaks, 0U);
  EXPECT_EQ(outcome.stalls, 0U);
  EXPECT_EQ(outcome.kills, 40U);
  EXPECT_GE(outcome.grants, 40U * 8U);
}

// The witness itself must be able to see what it looks for.
TEST_F(ContentionTest, WitnessSeesASlotOfALivingOwner) {
  const contention::SharedBoard board;
  std::mt19937_64 chance(1);
  const auto lease = take(table_, {"GPU-3"});
  ASSERT_TRUE(lease);
  board->owner[3] = 12;
  board->killed[12] = true;
  contention::hold(*lease, *board, 5, chance);
  EXPECT_EQ(board->double_grants, 0U);
  board->owner[3] = 13;
  contention::hold(*lease, *board, 5, chance);
  EXPECT_EQ(board->double_grants, 1U);
}

}  // namespace
}  // namespace muster::lease
