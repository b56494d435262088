#include "child.hpp"
#include "lease_fixture.hpp"

namespace muster::lease {
namespace {

using testing::Child;
using testing::EnvironmentVariable;
using testing::Talk;

class NestedLease : public LeaseTest {};

TEST_F(NestedLease, WorksInsideTheOneAroundIt) {
  auto outer = take(table_, {"GPU-a", "GPU-b"});
  ASSERT_TRUE(outer);
  const auto [name, value] = outer->pass_on_exec();
  EXPECT_EQ(name, "MUSTER_LEASE");
  EXPECT_EQ(value.substr(0, 2), "1:");
  const EnvironmentVariable inside(name, value);
  LeaseTable first(folder_);
  LeaseTable second(folder_);
  EXPECT_FALSE(first.holder_of("GPU-a"));
  {
    const auto inner = first.acquire(Names{"GPU-a"}, Purpose{"a-trial"});
    ASSERT_TRUE(inner);
    EXPECT_EQ(word(take(second, {"GPU-a"})), "refused");
    EXPECT_EQ(word(take(second, {"GPU-b"})), "granted");
    EXPECT_EQ(second.holder_of("GPU-a")->command, "a-trial");
    // Those outside see the one around it.
    EXPECT_EQ(table_.holder_of("GPU-a")->command, "test");
  }
  EXPECT_EQ(word(take(second, {"GPU-a", "GPU-b"})), "granted");
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "refused");
}

TEST_F(NestedLease, RefusesWhatIsOutsideTheOneAroundIt) {
  auto outer = take(table_, {"GPU-a"});
  ASSERT_TRUE(outer);
  const auto [name, value] = outer->pass_on_exec();
  const EnvironmentVariable inside(name, value);
  LeaseTable inner(folder_);
  const auto lease = take(inner, {"GPU-a", "GPU-c"});
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().kind, Error::Kind::bad_input);
  EXPECT_NE(lease.error().what.find("GPU-c is outside the lease"), std::string::npos) << lease.error().what;
  EXPECT_NE(lease.error().what.find("GPU-a"), std::string::npos);
  const auto other = take(table_, {"GPU-c"});
  ASSERT_TRUE(other);
  EXPECT_TRUE(inner.holder_of("GPU-c"));
}

TEST_F(NestedLease, GoesAsDeepAsNeeded) {
  auto outer = take(table_, {"GPU-a", "GPU-b"});
  ASSERT_TRUE(outer);
  const auto [name, value] = outer->pass_on_exec();
  const EnvironmentVariable inside(name, value);
  LeaseTable sweep(folder_);
  auto trial = take(sweep, {"GPU-a"});
  ASSERT_TRUE(trial);
  const auto deeper = trial->pass_on_exec();
  EXPECT_EQ(deeper.second.substr(0, 2), "2:");
  const EnvironmentVariable inside_both(deeper.first, deeper.second);
  LeaseTable evaluation(folder_);
  EXPECT_EQ(word(take(evaluation, {"GPU-a"})), "granted");
  EXPECT_NE(word(take(evaluation, {"GPU-b"})), "granted");
}

TEST_F(NestedLease, CountsForNothingOnceTheOneAroundItHasEnded) {
  std::string value;
  {
    auto outer = take(table_, {"GPU-a"});
    ASSERT_TRUE(outer);
    value = outer->pass_on_exec().second;
  }
  const EnvironmentVariable stale("MUSTER_LEASE", value);
  LeaseTable table(folder_);
  {
    const auto lease = take(table, {"GPU-a", "GPU-c"});
    ASSERT_TRUE(lease);
    EXPECT_EQ(word(take(table_, {"GPU-a"})), "refused");
  }
  // Held again, but by another lease.
  const auto other = take(table_, {"GPU-a"});
  ASSERT_TRUE(other);
  EXPECT_EQ(word(take(table, {"GPU-a"})), "refused");
}

TEST_F(NestedLease, IgnoresAVariableThatMakesNoSense) {
  const auto held = take(table_, {"GPU-a"});
  ASSERT_TRUE(held);
  for (const char* value : {"1", "1:", "x:y:GPU-a", "0:1:GPU-a", "-1:1:GPU-a", "1::GPU-a", "1:2:", "1:2:../x", ":::"}) {
    const EnvironmentVariable odd("MUSTER_LEASE", value);
    LeaseTable table(folder_);
    EXPECT_EQ(word(take(table, {"GPU-a"})), "refused") << value;
    EXPECT_EQ(word(take(table, {"GPU-b"})), "granted") << value;
  }
}

TEST_F(NestedLease, WaitsAmongItsSiblingsOnly) {
  auto outer = take(table_, {"GPU-a"});
  ASSERT_TRUE(outer);
  Child outsider([&](const Talk& talk) {
    LeaseTable table(folder_);
    const auto choose = [&](const Occupancy& occupancy) -> Result<Names> {
      if (occupancy.holder_of("GPU-a")) return Error{Error::Kind::refused, "held", ""};
      return Names{"GPU-a"};
    };
    static_cast<void>(
        table.acquire(Names{"GPU-a"}, choose, Purpose{}, patient, [&](const Error&) { talk.say("waiting"); }));
  });
  ASSERT_EQ(outsider.hear(), "waiting");
  const auto [name, value] = outer->pass_on_exec();
  const EnvironmentVariable inside(name, value);
  LeaseTable inner(folder_);
  EXPECT_EQ(word(take(inner, {"GPU-a"})), "granted");
}

}  // namespace
}  // namespace muster::lease
