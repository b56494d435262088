#include <sys/file.h>

#include <fstream>

#include "child.hpp"
#include "lease_fixture.hpp"

namespace muster::lease {
namespace {

using testing::Child;
using testing::Talk;

class Waiting : public LeaseTest {
 protected:
  // A process of its own, as a lease of this one would be inherited by those forked later. Takes these when all are
  // free; says "waiting" when it begins to, then the result; holds until told to go on.
  Child wait_for(const Names& names, const std::function<void(const Talk&)>& when_granted = {}) {
    return Child([this, names, when_granted](const Talk& talk) {
      LeaseTable table(folder_);
      const auto choose = [&](const Occupancy& occupancy) -> Result<Names> {
        for (const ResourceName& name : names)
          if (occupancy.holder_of(name)) return Error{Error::Kind::refused, name + " is held", ""};
        return names;
      };
      const auto lease = table.acquire(names, choose, Purpose{"wait-for-" + names.front()}, patient,
                                       [&](const Error&) { talk.say("waiting"); });
      if (lease && when_granted) when_granted(talk);
      talk.say(word(lease));
      talk.listen();
    });
  }
  std::size_t tickets() const {
    const std::filesystem::directory_iterator entries(folder_ / "waiting");
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }
};

TEST_F(Waiting, EndsWhenTheHolderGivesUp) {
  Child holder = wait_for({"GPU-a"});
  ASSERT_EQ(holder.hear(), "granted");
  Child waiter = wait_for({"GPU-a"});
  ASSERT_EQ(waiter.hear(), "waiting");
  EXPECT_EQ(tickets(), 1U);
  holder.go_on();
  EXPECT_EQ(waiter.hear(), "granted");
  EXPECT_EQ(tickets(), 0U);
  EXPECT_EQ(table_.holder_of("GPU-a")->pid, waiter.pid());
}

TEST_F(Waiting, EndsWhenTheHolderIsKilled) {
  Child holder = wait_for({"GPU-a"});
  ASSERT_EQ(holder.hear(), "granted");
  Child waiter = wait_for({"GPU-a"});
  ASSERT_EQ(waiter.hear(), "waiting");
  holder.kill_now();
  EXPECT_EQ(waiter.hear(), "granted");
}

TEST_F(Waiting, ServesFiftyInTheOrderOfTheirArrival) {
  constexpr int count = 50;
  std::array<int, 2> grants{};
  ASSERT_EQ(::pipe2(grants.data(), O_CLOEXEC), 0);
  Child holder = wait_for({"GPU-a", "GPU-b"});
  ASSERT_EQ(holder.hear(), "granted");
  std::vector<Child> waiters;
  for (int place = 0; place < count; ++place) {
    // Every third wants both, so that the line holds different sets.
    const Names names = place % 3 == 0 ? Names{"GPU-a", "GPU-b"} : Names{"GPU-a"};
    waiters.push_back(wait_for(names, [&, place](const Talk&) {
      const auto byte = static_cast<unsigned char>(place);
      if (::write(grants[1], &byte, 1) != 1) ::_exit(98);
    }));
    ASSERT_EQ(waiters.back().hear(), "waiting");
    waiters.back().go_on();  // it gives up as soon as it has been served
  }
  holder.go_on();
  for (int place = 0; place < count; ++place) {
    unsigned char byte = 255;
    ASSERT_EQ(::read(grants[0], &byte, 1), 1);
    EXPECT_EQ(byte, place);
  }
  for (Child& waiter : waiters) EXPECT_EQ(waiter.hear(), "granted");
  ::close(grants[0]);
  ::close(grants[1]);
}

TEST_F(Waiting, DoesNotBlockOthersOnceTheWaiterIsKilled) {
  Child holder = wait_for({"GPU-a"});
  ASSERT_EQ(holder.hear(), "granted");
  Child first = wait_for({"GPU-a"});
  ASSERT_EQ(first.hear(), "waiting");
  Child second = wait_for({"GPU-a"});
  ASSERT_EQ(second.hear(), "waiting");
  first.kill_now();
  holder.go_on();
  EXPECT_EQ(second.hear(), "granted");
  second.go_on();
  second.wait();
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "granted");
  EXPECT_EQ(tickets(), 0U);
}

TEST_F(Waiting, IsNotOvertakenByASmallerRequestButByADisjointOne) {
  const auto lease = take(table_, {"GPU-a"});
  ASSERT_TRUE(lease);
  Child large = wait_for({"GPU-a", "GPU-b"});
  ASSERT_EQ(large.hear(), "waiting");
  const auto small = take(table_, {"GPU-b"});
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().kind, Error::Kind::refused);
  EXPECT_NE(small.error().what.find("pid " + std::to_string(large.pid())), std::string::npos) << small.error().what;
  EXPECT_EQ(word(take(table_, {"GPU-c"})), "granted");
  Child disjoint = wait_for({"GPU-c"});
  EXPECT_EQ(disjoint.hear(), "granted");
  Child behind = wait_for({"GPU-b"});
  EXPECT_EQ(behind.hear(), "waiting");
}

TEST_F(Waiting, ShowsTheChooserWhoCameEarlier) {
  const auto lease = take(table_, {"GPU-a"});
  ASSERT_TRUE(lease);
  Child waiter = wait_for({"GPU-a", "GPU-b"});
  ASSERT_EQ(waiter.hear(), "waiting");
  std::optional<Holder> earlier;
  const auto choose = [&](const Occupancy& occupancy) -> Result<Names> {
    earlier = occupancy.earlier_waiter_for("GPU-b");
    EXPECT_FALSE(occupancy.earlier_waiter_for("GPU-c"));
    return Names{"GPU-c"};
  };
  EXPECT_TRUE(table_.acquire(Names{"GPU-b", "GPU-c"}, choose, Purpose{}));
  ASSERT_TRUE(earlier);
  EXPECT_EQ(earlier->pid, waiter.pid());
  EXPECT_EQ(earlier->command, "wait-for-GPU-a");
}

TEST_F(Waiting, EndsWithTheLastRefusalWhenTheSpanIsOver) {
  const auto lease = take(table_, {"GPU-a"});
  ASSERT_TRUE(lease);
  int looks = 0;
  int begun = 0;
  const auto choose = [&](const Occupancy&) -> Result<Names> {
    return Error{Error::Kind::refused, "look " + std::to_string(++looks), "try later"};
  };
  const auto later =
      table_.acquire(Names{"GPU-a"}, choose, Purpose{}, std::chrono::milliseconds(300), [&](const Error& error) {
        ++begun;
        EXPECT_EQ(error.what, "look 1");
      });
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().kind, Error::Kind::refused);
  EXPECT_GT(looks, 1);
  EXPECT_EQ(later.error().what.find("look " + std::to_string(looks) + " (waited "), 0U) << later.error().what;
  EXPECT_EQ(later.error().remedy, "try later");
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(tickets(), 0U);
}

TEST_F(Waiting, EndsAtOnceOnBadInput) {
  int looks = 0;
  const auto choose = [&](const Occupancy&) -> Result<Names> {
    ++looks;
    return Error{looks < 3 ? Error::Kind::refused : Error::Kind::bad_input, "no", ""};
  };
  const auto lease = table_.acquire(Names{"GPU-a"}, choose, Purpose{}, patient);
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().kind, Error::Kind::bad_input);
  EXPECT_EQ(lease.error().what, "no");
  EXPECT_EQ(looks, 3);
}

TEST_F(Waiting, DoesNotBeginWithoutNeed) {
  bool begun = false;
  const auto choose = [](const Occupancy&) -> Result<Names> { return Names{"GPU-a"}; };
  EXPECT_TRUE(table_.acquire(Names{"GPU-a"}, choose, Purpose{}, patient, [&](const Error&) { begun = true; }));
  EXPECT_FALSE(begun);
}

TEST_F(Waiting, StandsForEveryResourceWhenItsTicketCannotBeRead) {
  ASSERT_TRUE(table_.check());
  Child odd([&](const Talk& talk) {
    const FileDescriptor ticket(::open((folder_ / "waiting" / "00000000000000000007").c_str(), O_RDWR | O_CREAT, 0666));
    talk.say(::flock(ticket.number(), LOCK_EX) == 0 ? "waiting" : "failed");
    talk.listen();
  });
  ASSERT_EQ(odd.hear(), "waiting");
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "refused");
  odd.kill_now();
  EXPECT_EQ(word(take(table_, {"GPU-a"})), "granted");
  EXPECT_EQ(tickets(), 0U);
}

TEST_F(Waiting, IsPossibleBehindTicketsThatWereMadeByHand) {
  ASSERT_TRUE(table_.check());
  for (const char* planted : {"04611686018427387904", "04611686018427387903", "00000000000000000001"})
    std::ofstream(folder_ / "waiting" / planted) << "planted";
  Child holder([&](const Talk& talk) {
    LeaseTable table(folder_);
    const auto lease = take(table, {"GPU-a"});
    talk.say(word(lease));
    talk.listen();
  });
  ASSERT_EQ(holder.hear(), "granted");
  Child first = wait_for({"GPU-a"});
  ASSERT_EQ(first.hear(), "waiting");
  Child second = wait_for({"GPU-a"});
  ASSERT_EQ(second.hear(), "waiting");
  holder.kill_now();
  EXPECT_EQ(first.hear(), "granted") << "the order is kept";
  first.kill_now();
  EXPECT_EQ(second.hear(), "granted");
}

TEST_F(Waiting, SaysWhoseTicketNobodyCanWaitBehind) {
  ASSERT_TRUE(table_.check());
  const auto last = folder_ / "waiting" / "04611686018427387904";
  std::ofstream(last) << "planted";
  const FileDescriptor planted(::open(last.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(planted.number(), LOCK_EX | LOCK_NB), 0);
  const auto lease = take(table_, {"GPU-a"});
  ASSERT_FALSE(lease) << "it comes first: what it wants cannot be read";
  const auto refused = take(table_, {"GPU-a"}, patient);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find(last.string()), std::string::npos) << refused.error().what;
}

TEST_F(Waiting, IgnoresWhatIsNoTicket) {
  ASSERT_TRUE(table_.check());
  for (const char* name : {"README", "00000000000000000001+x", "99999999999999999999", "18446744073709551615"})
    std::ofstream(folder_ / "waiting" / name) << "{}";
  const auto lease = take(table_, {"GPU-a"});
  ASSERT_TRUE(lease);
  Child waiter = wait_for({"GPU-a"});
  ASSERT_EQ(waiter.hear(), "waiting");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "waiting" / "00000000000000000001"));
}

}  // namespace
}  // namespace muster::lease
