#include <sys/file.h>
#include <sys/resource.h>

#include <unistd.h>

#include <csignal>
#include <ctime>
#include <fstream>
#include <iterator>
#include <thread>

#include "system/process.hpp"
#include "child.hpp"
#include "lease/public_name.hpp"
#include "lease/record.hpp"
#include "lease_fixture.hpp"

namespace muster::lease {
namespace {

using testing::Child;
using testing::Talk;

class HolderFacts : public LeaseTest {};

TEST_F(HolderFacts, AreReadableByEveryoneWhileTheLeaseIsHeld) {
  const auto before = std::time(nullptr);
  Child child([&](const Talk& talk) {
    LeaseTable table(folder_);
    const auto lease = table.acquire(Names{"GPU-a"}, Purpose{"muster train --config run.yaml"});
    talk.say(word(lease));
    talk.listen();
  });
  ASSERT_EQ(child.hear(), "granted");
  const auto holder = table_.holder_of("GPU-a");
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, child.pid());
  EXPECT_EQ(holder->user, user_name(::geteuid()));
  EXPECT_EQ(holder->command, "muster train") << "arguments may hold secrets, and everybody can read the file";
  EXPECT_GE(holder->since.value(), before);
  EXPECT_LE(holder->since.value(), std::time(nullptr));
  EXPECT_FALSE(holder->memory_before);
  child.kill_now();
  EXPECT_FALSE(table_.holder_of("GPU-a"));
}

TEST_F(HolderFacts, AreAbsentWhereNobodyEverLeased) {
  EXPECT_FALSE(table_.holder_of("GPU-a"));
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_FALSE(LeaseTable(folder_).holder_of("no such name"));
}

TEST_F(HolderFacts, NeedNoWritePermission) {
  const auto lease = take(table_, {"GPU-a"});
  ASSERT_TRUE(lease);
  static_cast<void>(take(table_, {"GPU-b"}));
  ::chmod((folder_ / "GPU-a.lock").c_str(), 0444);
  ::chmod((folder_ / "GPU-b.lock").c_str(), 0444);
  ::chmod((folder_ / "gate" / "lock").c_str(), 0444);
  EXPECT_EQ(testing::in_child([&] {
              testing::become_another_user();
              const LeaseTable table(folder_);
              const bool right = table.holder_of("GPU-a") && !table.holder_of("GPU-b") && !table.holder_of("GPU-c");
              return right ? describe(*table.holder_of("GPU-a")).substr(0, 4) : "wrong";
            }),
            "pid ");
}

TEST_F(HolderFacts, CarryTheMemoryThatWasUsedBefore) {
  auto lease = take(table_, {"GPU-a", "GPU-b"});
  ASSERT_TRUE(lease);
  lease->record_memory_before("GPU-b", mebibytes(3));
  EXPECT_FALSE(table_.holder_of("GPU-a")->memory_before);
  EXPECT_EQ(table_.holder_of("GPU-b")->memory_before, mebibytes(3));
  EXPECT_EQ(table_.holder_of("GPU-b")->pid, ::getpid());
  EXPECT_THROW(lease->record_memory_before("GPU-c", mebibytes(1)), std::invalid_argument);
}

TEST_F(HolderFacts, OfTheOneBeforeReachTheNextHolder) {
  {
    auto first = table_.acquire(Names{"GPU-b"}, Purpose{"the-one-before"});
    ASSERT_TRUE(first);
    EXPECT_FALSE(first->previous_holders().at(0));
    first->record_memory_before("GPU-b", gibibytes(1));
  }
  const auto next = take(table_, {"GPU-a", "GPU-b"});
  ASSERT_TRUE(next);
  ASSERT_EQ(next->previous_holders().size(), 2U);
  EXPECT_FALSE(next->previous_holders()[0]);
  ASSERT_TRUE(next->previous_holders()[1]);
  EXPECT_EQ(next->previous_holders()[1]->command, "the-one-before");
  EXPECT_EQ(next->previous_holders()[1]->memory_before, gibibytes(1));
}

TEST_F(HolderFacts, OfASettledLeaseLeaveTheNextHolderNothingToWaitFor) {
  {
    auto first = table_.acquire(Names{"GPU-b"}, Purpose{"the-one-before"});
    ASSERT_TRUE(first);
    first->record_memory_before("GPU-b", gibibytes(1));
    first->settle();
  }
  const auto next = take(table_, {"GPU-b"});
  ASSERT_TRUE(next);
  ASSERT_TRUE(next->previous_holders()[0]);
  EXPECT_EQ(*next->previous_holders()[0], Holder{}) << "nor anything to read about the one before";
}

TEST_F(HolderFacts, AreStoredAsOneLineOfJsonOfFixedSize) {
  const std::string odd = "train\n\x1b[31m\xff\xfe" + std::string(3000, '"');
  auto lease = table_.acquire(Names{"GPU-a"}, Purpose{odd});
  ASSERT_TRUE(lease);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "GPU-a.lock"), 4096U);
  const auto command = table_.holder_of("GPU-a")->command.value();
  EXPECT_EQ(command.substr(0, 18), "train  [31m\uFFFD\uFFFD\"");
  EXPECT_LT(command.size(), 600U);
  lease->record_memory_before("GPU-a", ByteCount{17});
  EXPECT_EQ(std::filesystem::file_size(folder_ / "GPU-a.lock"), 4096U);
  EXPECT_EQ(table_.holder_of("GPU-a")->command, command);
}

TEST_F(HolderFacts, AreNotInventedFromSpoiledRecords) {
  const auto lease = take(table_, {"GPU-a"});
  ASSERT_TRUE(lease);
  for (const char* spoiled : {"", "not json", "[1]", R"({"id": 4})", R"({"id":"x","pid":"7","since":[]})"}) {
    std::ofstream(folder_ / "GPU-a.lock") << spoiled;
    const auto holder = table_.holder_of("GPU-a");
    ASSERT_TRUE(holder) << spoiled;
    EXPECT_TRUE(!holder->pid || holder->pid == ::getpid()) << spoiled;
    EXPECT_FALSE(holder->since) << spoiled;
  }
}

TEST_F(HolderFacts, OfAStrangerWithTheLockAreNotTheLastRecord) {
  static_cast<void>(table_.acquire(Names{"GPU-a"}, Purpose{"long-gone"}));
  Child stranger([&](const Talk& talk) {
    const FileDescriptor file(::open((folder_ / "GPU-a.lock").c_str(), O_RDONLY));
    talk.say(::flock(file.number(), LOCK_EX | LOCK_NB) == 0 ? "locked" : "failed");
    talk.listen();
  });
  // This process wrote the record; the kernel knows that another took the lock.
  ASSERT_EQ(stranger.hear(), "locked");
  const auto holder = table_.holder_of("GPU-a");
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, stranger.pid());
  EXPECT_NE(holder->command, "long-gone");
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "refused");
}

TEST_F(HolderFacts, AreStillKnownInPartWhenTheRecordCannotBeWritten) {
  static_cast<void>(table_.acquire(Names{"GPU-a"}, Purpose{"the-one-before"}));
  Child child([&](const Talk& talk) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit nothing{0, 0};
    ::setrlimit(RLIMIT_FSIZE, &nothing);
    LeaseTable table(folder_);
    const auto lease = take(table, {"GPU-a", "GPU-b"});
    talk.say(word(lease));
    talk.listen();
  });
  ASSERT_EQ(child.hear(), "granted");
  for (const char* name : {"GPU-a", "GPU-b"}) {
    EXPECT_EQ(word(take(table_, {name})), "refused");
    const auto holder = table_.holder_of(name);
    ASSERT_TRUE(holder);
    EXPECT_EQ(holder->pid, child.pid());
    EXPECT_NE(holder->command, "the-one-before");
    EXPECT_FALSE(holder->since);
  }
  child.kill_now();
  EXPECT_EQ(word(take(table_, {"GPU-a", "GPU-b"})), "granted");
}

TEST_F(HolderFacts, ShowTheWholeCommandOfALivingProcessWithoutStoringIt) {
  Child child([&](const Talk& talk) {
    LeaseTable table(folder_);
    auto lease = table.acquire(Names{"GPU-a"}, Purpose{"sleep 1234.5"});
    talk.say(word(lease));
    if (!lease) return;
    lease->pass_on_exec();
    ::execlp("sleep", "sleep", "1234.5", nullptr);
  });
  ASSERT_EQ(child.hear(), "granted");
  const auto shown = [&] { return table_.holder_of("GPU-a").value_or(Holder{}).command.value_or(""); };
  for (int look = 0; look < 2000 && shown() != "sleep 1234.5"; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(shown(), "sleep 1234.5");
  std::ifstream file(folder_ / "GPU-a.lock");
  const std::string stored((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(stored.find("\"sleep\""), std::string::npos) << stored;
  EXPECT_EQ(stored.find("1234.5"), std::string::npos) << stored;
}

TEST_F(HolderFacts, TakeTheUserFromTheProcessAndNotFromTheRecord) {
  auto lease = take(table_, {"GPU-a"});
  ASSERT_TRUE(lease);
  std::ofstream(folder_ / "GPU-a.lock") << R"({"id":"x","pid":)" << ::getpid()
                                         << R"(,"user":"mallory","command":"a\u202eb"})";
  const auto holder = table_.holder_of("GPU-a");
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->user, user_name(::geteuid()));
  EXPECT_EQ(holder->command, "a\uFFFDb") << "characters that turn the direction of writing are not shown";
}

TEST_F(HolderFacts, OfAStrangerWithASharedLockAreShownAsWhatTheyAre) {
  static_cast<void>(take(table_, {"GPU-a", "GPU-b"}));
  Child stranger([&](const Talk& talk) {
    const FileDescriptor file(::open((folder_ / "GPU-a.lock").c_str(), O_RDONLY));
    talk.say(::flock(file.number(), LOCK_SH | LOCK_NB) == 0 ? "locked" : "failed");
    talk.listen();
  });
  ASSERT_EQ(stranger.hear(), "locked");
  const auto holder = table_.holder_of("GPU-a");
  ASSERT_TRUE(holder) << "it is not free: nobody can lease it";
  EXPECT_EQ(holder->pid, stranger.pid());
  EXPECT_NE(describe(*holder).find("shared lock"), std::string::npos) << describe(*holder);
  const auto first_free = [&](const Occupancy& occupancy) -> Result<Names> {
    for (const char* name : {"GPU-a", "GPU-b"})
      if (!occupancy.holder_of(name)) return Names{name};
    return Error{Error::Kind::refused, "none is free", ""};
  };
  const auto lease = table_.acquire(Names{"GPU-a", "GPU-b"}, first_free, Purpose{"test"});
  ASSERT_TRUE(lease) << lease.error().what;
  EXPECT_EQ(lease->resources(), Names{"GPU-b"}) << "the GPU that can be leased is chosen";
}

TEST(PublicName, IsTheProgramWithoutItsArguments) {
  EXPECT_EQ(public_name("python train.py --token hf_secret"), "python");
  EXPECT_EQ(public_name("/opt/bin/python3.11 -m x"), "python3.11");
  EXPECT_EQ(public_name("build/muster train --config run.yaml"), "muster train");
  EXPECT_EQ(public_name("muster --token=x"), "muster");
  EXPECT_EQ(public_name("muster hf_Secret1"), "muster");
  EXPECT_EQ(public_name(""), "");
}

TEST(HolderDescription, SaysWhatIsKnown) {
  EXPECT_EQ(describe(Holder{}), "an unknown process");
  Holder holder;
  holder.pid = 12;
  EXPECT_EQ(describe(holder), "pid 12");
  holder.command = "train";
  EXPECT_EQ(describe(holder), "pid 12 (train)");
  holder.user = "alice";
  EXPECT_EQ(describe(holder), "pid 12 (alice, train)");
  holder.since = 1'700'000'000;
  EXPECT_EQ(describe(holder).substr(0, 32), "pid 12 (alice, train) since 2023");
}

}  // namespace
}  // namespace muster::lease
