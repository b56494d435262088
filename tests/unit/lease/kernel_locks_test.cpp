#include "lease/kernel_locks.hpp"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "testing/scratch_folder.hpp"

namespace muster::lease {
namespace {

struct stat file(unsigned major_number, unsigned minor_number, ino_t inode) {
  struct stat status {};
  status.st_dev = makedev(major_number, minor_number);
  status.st_ino = inode;
  return status;
}

TEST(KernelLocks, NameTheTakerOfAnExclusiveFlock) {
  const testing::ScratchFolder proc;
  proc.write("locks",
             "1: FLOCK  ADVISORY  WRITE 4912 fe:00:2146454 0 EOF\n"
             "1: -> FLOCK  ADVISORY  WRITE 77 fe:00:5 0 EOF\n"
             "2: FLOCK  ADVISORY  READ 78 fe:00:6 0 EOF\n"
             "3: POSIX  ADVISORY  WRITE 79 fe:00:7 0 EOF\n"
             "4: OFDLCK ADVISORY  WRITE -1 fe:00:8 0 EOF\n"
             "junk\n"
             "5: FLOCK  ADVISORY  WRITE 80 00:1a:9 0 EOF\n");
  const auto locks = KernelLocks::read(proc.path());
  EXPECT_EQ(locks.taker(file(0xfe, 0, 2146454)), 4912);
  EXPECT_EQ(locks.taker(file(0, 0x1a, 9)), 80);
  EXPECT_FALSE(locks.taker(file(0xfe, 1, 2146454)));
  for (const ino_t inode : {5U, 6U, 7U, 8U}) EXPECT_FALSE(locks.taker(file(0xfe, 0, inode))) << inode;
}

TEST(KernelLocks, NameThoseWhoShareALockApartFromItsTaker) {
  const testing::ScratchFolder proc;
  proc.write("locks", "1: FLOCK  ADVISORY  WRITE 4912 fe:00:5 0 EOF\n2: FLOCK  ADVISORY  READ 78 fe:00:6 0 EOF\n3: FLOCK  "
                      "ADVISORY  READ " +
                          std::to_string(::getpid()) + " fe:00:7 0 EOF\n");
  const auto locks = KernelLocks::read(proc.path());
  EXPECT_EQ(locks.sharer(file(0xfe, 0, 6)), 78);
  EXPECT_FALSE(locks.sharer(file(0xfe, 0, 5))) << "it is exclusive";
  EXPECT_FALSE(locks.sharer(file(0xfe, 0, 7))) << "it is a look of this process";
}

TEST(KernelLocks, AreEmptyWhereTheKernelHasNoList) {
  const testing::ScratchFolder proc;
  EXPECT_FALSE(KernelLocks::read(proc.path()).taker(file(0xfe, 0, 1)));
}

TEST(KernelLocks, RecogniseAProcessOfAnotherPidNamespace) {
  const testing::ScratchFolder proc;
  std::filesystem::create_directory(proc.path() / "400");
  proc.write("400/status", "Name:\tpython\nNSpid:\t400\t7\nThreads:\t1\n");
  EXPECT_TRUE(is_same_process(400, 7, proc.path()));
  EXPECT_TRUE(is_same_process(12, 12, proc.path()));
  EXPECT_FALSE(is_same_process(400, 8, proc.path()));
  EXPECT_FALSE(is_same_process(401, 7, proc.path()));
}

}  // namespace
}  // namespace muster::lease
