#include "child.hpp"
#include "lease_fixture.hpp"

namespace muster::lease {
namespace {

using testing::Child;
using testing::Talk;

class Crash : public LeaseTest {};

TEST_F(Crash, AlwaysFreesTheLease) {
  for (int round = 0; round < 200; ++round) {
    Child holder([&](const Talk& talk) {
      LeaseTable table(folder_);
      const auto lease = take(table, {"GPU-a", "GPU-b"});
      talk.say(word(lease));
      talk.listen();
    });
    ASSERT_EQ(holder.hear(), "granted") << round;
    ASSERT_EQ(word(take(table_, {"GPU-b"})), "refused") << round;
    holder.kill_now();
    ASSERT_EQ(word(take(table_, {"GPU-a", "GPU-b"})), "granted") << round;
  }
}

TEST_F(Crash, AtAnyMomentOfAcquiringLeavesTheTableUsable) {
  for (int round = 0; round < 200; ++round) {
    Child holder([&](const Talk& talk) {
      LeaseTable table(folder_);
      talk.say("started");
      while (true) static_cast<void>(take(table, {"GPU-a", "GPU-b"}));
    });
    ASSERT_EQ(holder.hear(), "started");
    ::usleep(static_cast<useconds_t>(round * 13 % 997));
    holder.kill_now();
    const auto lease = take(table_, {"GPU-a", "GPU-b"});
    ASSERT_EQ(word(lease), "granted") << round;
    ASSERT_EQ(table_.holder_of("GPU-a")->pid, ::getpid());
  }
}

// Starts a program below a holder that dies; the program's process says its id.
class Inheritance : public LeaseTest {
 protected:
  static void take_and_start(const std::filesystem::path& folder, bool pass_on, const Talk& talk) {
    LeaseTable table(folder);
    auto lease = take(table, {"GPU-a"});
    if (!lease) return talk.say(word(lease));
    if (pass_on) lease->pass_on_exec();
    const pid_t program = ::fork();
    if (program == 0) {
      // Another session, so that nothing but the lease ties it to the one that dies.
      ::setsid();
      ::execlp("sleep", "sleep", "1000", nullptr);
      ::_exit(127);
    }
    talk.say(std::to_string(program));
    talk.listen();
  }
};

bool is_running_sleep(pid_t pid) {
  std::string name(6, '\0');
  const FileDescriptor file(::open(("/proc/" + std::to_string(pid) + "/comm").c_str(), O_RDONLY | O_CLOEXEC));
  return ::read(file.number(), name.data(), name.size()) == 6 && name == "sleep\n";
}

TEST_F(Inheritance, KeepsTheLeaseUntilTheLastProgramEnds) {
  Child holder([&](const Talk& talk) { take_and_start(folder_, true, talk); });
  const pid_t program = std::stoi(holder.hear());
  while (!is_running_sleep(program)) ::usleep(1000);
  const pid_t starter = holder.pid();
  holder.kill_now();
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "refused");
  ASSERT_TRUE(table_.holder_of("GPU-a"));
  EXPECT_EQ(table_.holder_of("GPU-a")->pid, starter);
  ::kill(program, SIGKILL);
  EXPECT_EQ(word(take(table_, {"GPU-a"}, patient)), "granted");
}

TEST_F(Inheritance, DoesNotHappenUnlessAskedFor) {
  Child holder([&](const Talk& talk) { take_and_start(folder_, false, talk); });
  const pid_t program = std::stoi(holder.hear());
  while (!is_running_sleep(program)) ::usleep(1000);
  holder.kill_now();
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "granted");
  ::kill(program, SIGKILL);
}

TEST_F(Inheritance, ReachesForkedProcessesToo) {
  auto lease = std::make_optional(take(table_, {"GPU-a"}));
  Child copy([&](const Talk& talk) {
    talk.say("has a copy");
    talk.listen();
  });
  ASSERT_EQ(copy.hear(), "has a copy");
  lease.reset();
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "refused");
  copy.kill_now();
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "granted");
}

TEST_F(Inheritance, DoesNotHappenToTheGateOrToASetThatWasGivenUp) {
  const auto held = take(table_, {"GPU-b"});
  ASSERT_TRUE(held);
  std::optional<Child> copy;
  const auto fork_inside = [&](const Occupancy&) -> Result<Names> {
    copy.emplace([](const Talk& talk) {
      talk.say("has a copy");
      talk.listen();
    });
    return Names{"GPU-a", "GPU-b"};
  };
  EXPECT_EQ(word(table_.acquire(Names{"GPU-a", "GPU-b"}, fork_inside, Purpose{})), "refused");
  ASSERT_EQ(copy->hear(), "has a copy");
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "granted");
}

}  // namespace
}  // namespace muster::lease
