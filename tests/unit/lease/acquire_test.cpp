#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include "child.hpp"
#include "lease/gate.hpp"
#include "lease_fixture.hpp"

namespace muster::lease {
namespace {

using testing::Child;
using testing::Talk;

class Acquire : public LeaseTest {};

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

TEST_F(Acquire, HoldsUntilTheLeaseIsDestroyed) {
  {
    const auto lease = take(table_, {"GPU-a", "GPU-b"});
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->resources(), (Names{"GPU-a", "GPU-b"}));
    EXPECT_EQ(word(take(table_, {"GPU-a"})), "refused");
    EXPECT_EQ(word(take(table_, {"GPU-c"})), "granted");
  }
  EXPECT_EQ(word(take(table_, {"GPU-a", "GPU-b"})), "granted");
}

TEST_F(Acquire, KeepsTheOrderThatWasAskedFor) {
  const auto lease = take(table_, {"GPU-b", "GPU-c", "GPU-a"});
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->resources(), (Names{"GPU-b", "GPU-c", "GPU-a"}));
}

TEST_F(Acquire, TakesAllOrNothing) {
  const auto held = take(table_, {"GPU-b"});
  ASSERT_TRUE(held);
  EXPECT_EQ(word(take(table_, {"GPU-a", "GPU-b", "GPU-c"})), "refused");
  EXPECT_EQ(word(take(table_, {"GPU-a", "GPU-c"})), "granted");
}

TEST_F(Acquire, GivesUpTheWholeSetWhenTheChooserOverlooksAHolder) {
  const auto held = take(table_, {"GPU-b"});
  ASSERT_TRUE(held);
  const Names names{"GPU-a", "GPU-b"};
  const auto careless = [&](const Occupancy&) -> Result<Names> { return names; };
  const auto lease = table_.acquire(names, careless, Purpose{"careless"});
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().kind, Error::Kind::refused);
  EXPECT_NE(lease.error().what.find("GPU-b is held by pid"), std::string::npos) << lease.error().what;
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "granted");
}

TEST_F(Acquire, ShowsTheChooserWhoHoldsWhat) {
  const auto held = take(table_, {"GPU-b"});
  ASSERT_TRUE(held);
  const Names names{"GPU-a", "GPU-b", "GPU-c"};
  const auto first_free = [&](const Occupancy& occupancy) -> Result<Names> {
    for (const ResourceName& name : {names[1], names[2]})
      if (!occupancy.holder_of(name)) return Names{name};
    return Error{Error::Kind::refused, "none is free", ""};
  };
  const auto lease = table_.acquire(names, first_free, Purpose{"any"});
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->resources(), Names{"GPU-c"});
}

TEST_F(Acquire, NamesEveryHolderOfABusySet) {
  const auto first = table_.acquire(Names{"GPU-a"}, Purpose{"train-one"});
  const auto second = table_.acquire(Names{"GPU-b"}, Purpose{"train-two"});
  ASSERT_TRUE(first && second);
  const auto lease = take(table_, {"GPU-a", "GPU-b"});
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().kind, Error::Kind::refused);
  EXPECT_NE(lease.error().what.find("GPU-a is held by pid " + std::to_string(::getpid())), std::string::npos);
  EXPECT_NE(lease.error().what.find("train-one"), std::string::npos);
  EXPECT_NE(lease.error().what.find("train-two"), std::string::npos);
  EXPECT_NE(lease.error().what.find(" since 20"), std::string::npos) << lease.error().what;
  EXPECT_NE(lease.error().remedy.find("--wait"), std::string::npos);
  EXPECT_NE(lease.error().remedy.find("--share"), std::string::npos);
}

TEST_F(Acquire, RefusesANameThatIsNoUuid) {
  for (const char* name : {"", "GPU a", "GPU,a", "GPU+1", "GPU\n"}) {
    const auto lease = take(table_, {name});
    ASSERT_FALSE(lease) << name;
    EXPECT_EQ(lease.error().kind, Error::Kind::bad_input) << name;
  }
  EXPECT_FALSE(take(table_, {std::string(201, 'a')}));
  EXPECT_EQ(word(take(table_, {"..", "a:b", "x_y.1"})), "granted");
}

TEST_F(Acquire, AcceptsTheOldMigNames) {
  const auto lease = take(table_, {"MIG-GPU-a/1/0"});
  ASSERT_TRUE(lease);
  EXPECT_EQ(word(take(table_, {"MIG-GPU-a/1/0"})), "refused");
  EXPECT_EQ(word(take(table_, {"MIG-GPU-a/2/0"})), "granted");
}

TEST_F(Acquire, RefusesTheSameResourceTwice) {
  const auto lease = take(table_, {"GPU-a", "GPU-a"});
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().kind, Error::Kind::bad_input);
}

TEST_F(Acquire, TreatsAChoiceThatIsNoCandidateAsABug) {
  const auto choose = [](const Occupancy&) -> Result<Names> { return Names{"GPU-b"}; };
  EXPECT_THROW(static_cast<void>(table_.acquire(Names{"GPU-a"}, choose, Purpose{})), std::logic_error);
  EXPECT_EQ(word(take(table_, {"GPU-a", "GPU-b"})), "granted");
}

TEST_F(Acquire, LeavesNoDescriptorOpen) {
  static_cast<void>(take(table_, {"GPU-a"}));
  const auto before = open_descriptors();
  {
    const auto lease = take(table_, {"GPU-a", "GPU-b"});
    ASSERT_TRUE(lease);
    EXPECT_EQ(open_descriptors(), before + 4) << "a lock and a name for each";
    EXPECT_FALSE(take(table_, {"GPU-c", "GPU-b"}));
    EXPECT_FALSE(take(table_, {"GPU-b"}, std::chrono::milliseconds(20)));
    EXPECT_TRUE(table_.holder_of("GPU-a"));
    EXPECT_TRUE(table_.check());
    EXPECT_EQ(open_descriptors(), before + 4) << "a lock and a name for each";
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Acquire, MakesFilesThatAllUsersCanOpenWhateverTheUmask) {
  const mode_t before = ::umask(077);
  const auto lease = take(table_, {"GPU-a"});
  ::umask(before);
  ASSERT_TRUE(lease);
  const auto mode = [](const std::filesystem::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0U;
  };
  EXPECT_EQ(mode(folder_), 01777U);
  EXPECT_EQ(mode(folder_ / "gate"), 01777U);
  EXPECT_EQ(mode(folder_ / "waiting"), 01777U);
  EXPECT_EQ(mode(folder_ / "GPU-a.lock"), 0666U);
  EXPECT_EQ(mode(folder_ / "gate" / "lock"), 0666U);
}

TEST_F(Acquire, ExcludesOtherUsers) {
  Child other([&](const Talk& talk) {
    testing::become_another_user();
    LeaseTable table(folder_);
    talk.listen();
    talk.say(word(take(table, {"GPU-a"})));
    talk.listen();
    const auto lease = take(table, {"GPU-a", "GPU-new"});
    talk.say(word(lease));
    talk.listen();
  });
  {
    const auto lease = take(table_, {"GPU-a"});
    ASSERT_TRUE(lease);
    other.go_on();
    EXPECT_EQ(other.hear(), "refused");
  }
  other.go_on();
  ASSERT_EQ(other.hear(), "granted");
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "refused");
  EXPECT_EQ(word(take(table_, {"GPU-new"})), "refused");
  EXPECT_EQ(table_.holder_of("GPU-new").value().pid, other.pid());
  other.kill_now();
  EXPECT_EQ(word(take(table_, {"GPU-a", "GPU-new"})), "granted");
}

TEST_F(Acquire, TakesAnotherLookWhenTheLockFileWasReplaced) {
  static_cast<void>(take(table_, {"GPU-a"}));
  std::filesystem::remove(folder_ / "GPU-a.lock");
  const auto lease = take(table_, {"GPU-a"});
  ASSERT_TRUE(lease);
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "refused");
}

TEST_F(Acquire, GrantsNothingTwiceWhenALockFileIsDeletedWhileItIsHeld) {
  auto lease = std::make_optional(take(table_, {"GPU-a", "GPU-b"}));
  ASSERT_TRUE(*lease);
  std::filesystem::remove(folder_ / "GPU-a.lock");
  LeaseTable other(folder_);
  const auto refused = take(other, {"GPU-a"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::refused);
  EXPECT_NE(refused.error().what.find("lock file was deleted"), std::string::npos) << refused.error().what;
  EXPECT_TRUE(other.holder_of("GPU-a"));
  lease.reset();
  EXPECT_FALSE(other.holder_of("GPU-a"));
  EXPECT_TRUE(take(other, {"GPU-a", "GPU-b"}));
}

TEST_F(Acquire, GrantsNothingTwiceWhenTheWholeFolderIsDeleted) {
  const auto lease = take(table_, {"GPU-a"});
  ASSERT_TRUE(lease);
  std::filesystem::remove_all(folder_);
  EXPECT_TRUE(LeaseTable(folder_).holder_of("GPU-a"));
  LeaseTable other(folder_);
  EXPECT_EQ(word(take(other, {"GPU-a"})), "refused");
  EXPECT_EQ(word(take(other, {"GPU-b"})), "granted");
}

TEST_F(Acquire, HandsTheNameInTheKernelOnWithTheLock) {
  Child holder([&](const Talk& talk) {
    auto lease = take(table_, {"GPU-a"});
    if (!lease) return talk.say("0");
    lease->pass_on_exec();
    const pid_t child = ::fork();
    if (child == 0) {
      ::execlp("sleep", "sleep", "60", nullptr);
      ::_exit(127);
    }
    talk.say(std::to_string(child));
    talk.listen();
  });
  const pid_t sleeper = std::stoi(holder.hear());
  ASSERT_GT(sleeper, 0);
  std::filesystem::remove(folder_ / "GPU-a.lock");
  LeaseTable other(folder_);
  EXPECT_EQ(word(take(other, {"GPU-a"})), "refused");
  holder.kill_now();
  EXPECT_EQ(word(take(other, {"GPU-a"})), "refused") << "a child of the holder lives on";
  ::kill(sleeper, SIGKILL);
  EXPECT_EQ(word(take(other, {"GPU-a"}, patient)), "granted");
}

TEST_F(Acquire, DoesNotTouchAFileThatHasAnotherName) {
  static_cast<void>(table_.check());
  scratch_.write("private", "secret");
  ::chmod((scratch_.path() / "private").c_str(), 0600);
  std::filesystem::create_hard_link(scratch_.path() / "private", folder_ / "GPU-a.lock");
  const auto refused = take(table_, {"GPU-a"});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("has 2 names"), std::string::npos) << refused.error().what;
  struct stat status {};
  ASSERT_EQ(::stat((scratch_.path() / "private").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_EQ(status.st_size, 6);
}

TEST_F(Acquire, DoesNotFollowALinkInPlaceOfALockFile) {
  static_cast<void>(take(table_, {"GPU-a"}));
  const auto target = scratch_.write("target", "untouched");
  std::filesystem::create_symlink(target, folder_ / "GPU-b.lock");
  const auto lease = take(table_, {"GPU-a", "GPU-b"});
  ASSERT_FALSE(lease);
  EXPECT_NE(lease.error().what.find("GPU-b.lock"), std::string::npos);
  EXPECT_NE(lease.error().remedy.find("link"), std::string::npos) << lease.error().remedy;
  std::string text;
  std::getline(std::ifstream(target), text);
  EXPECT_EQ(text, "untouched");
}

TEST_F(Acquire, SaysWhoKeepsTheTableClosed) {
  static_cast<void>(take(table_, {"GPU-a"}));
  Child stuck([&](const Talk& talk) {
    LeaseTable table(folder_);
    const auto choose = [&](const Occupancy&) -> Result<Names> {
      talk.say("inside");
      talk.listen();
      return Names{"GPU-a"};
    };
    static_cast<void>(table.acquire(Names{"GPU-a"}, choose, Purpose{"stuck"}));
  });
  ASSERT_EQ(stuck.hear(), "inside");
  const auto folder = LeaseFolder::prepare(folder_);
  ASSERT_TRUE(folder);
  const auto gate = Gate::enter(*folder, std::chrono::milliseconds(50));
  ASSERT_FALSE(gate);
  EXPECT_EQ(gate.error().kind, Error::Kind::failed);
  EXPECT_NE(gate.error().what.find("pid " + std::to_string(stuck.pid())), std::string::npos) << gate.error().what;
  // Looking does not need the table to be open.
  EXPECT_FALSE(table_.holder_of("GPU-a"));
  stuck.kill_now();
  EXPECT_EQ(word(take(table_, {"GPU-b"})), "granted");
}

}  // namespace
}  // namespace muster::lease
