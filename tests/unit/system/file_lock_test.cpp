#include "system/file_lock.hpp"

#include <gtest/gtest.h>

#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

TEST(FileLock, IsHeldAsLongAsItsDescriptorIsOpen) {
  const testing::ScratchFolder scratch;
  const auto path = scratch.path() / "lock";
  EXPECT_EQ(lock_state(path), LockState::missing);
  {
    const auto held = try_to_lock_file(path);
    ASSERT_TRUE(held && *held);
    EXPECT_EQ(lock_state(path), LockState::locked);
    const auto second = try_to_lock_file(path);
    ASSERT_TRUE(second);
    EXPECT_FALSE(*second) << "somebody has it";
  }
  EXPECT_EQ(lock_state(path), LockState::open);
  EXPECT_TRUE(lock_file(path));
}

TEST(FileLock, NamesAFileThatCannotBeMade) {
  const testing::ScratchFolder scratch;
  const auto held = lock_file(scratch.path() / "no/lock");
  ASSERT_FALSE(held);
  EXPECT_NE(held.error().what.find("no/lock"), std::string::npos);
}

}  // namespace
}  // namespace muster
