#include "launch/keeper/descendants.hpp"

#include <algorithm>

#include "observed_keeper.hpp"

namespace muster::launch {
namespace {

// A child of this process with a child of its own.
class Descendants : public ::testing::Test {
 protected:
  Descendants()
      : family_([this] {
          const ForkedProcess inner(sleep_until_killed);
          const std::string said = std::to_string(inner.pid()) + "\n";
          if (::write(lines_.writer(), said.data(), said.size()) < 0) ::_exit(1);
          sleep_until_killed();
        }),
        inner_(lines_.next_pid()),
        inner_handle_(open_process(inner_)) {}
  ~Descendants() override {
    signal_process(inner_handle_, SIGKILL);
    family_.kill_now();
    ::waitpid(inner_, nullptr, 0);  // where this process is a sub-reaper
  }

  Lines lines_;
  ForkedProcess family_;
  pid_t inner_;
  FileDescriptor inner_handle_;
};

TEST_F(Descendants, AreFoundParentsFirst) {
  const std::vector<Descendant> found = find_descendants(::getpid());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].status.identity.pid, family_.pid());
  EXPECT_EQ(found[1].status.identity.pid, inner_);
  EXPECT_EQ(found[1].status.parent, family_.pid());
}

TEST_F(Descendants, SayWhichChildTheyDescendFrom) {
  for (const Descendant& found : find_descendants(::getpid())) EXPECT_EQ(found.top, family_.pid());
}

TEST_F(Descendants, DoNotIncludeSiblings) {
  const ForkedProcess sibling(sleep_until_killed);
  const std::vector<Descendant> found = find_descendants(family_.pid());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].status.identity.pid, inner_);
  EXPECT_EQ(found[0].top, inner_);
}

TEST_F(Descendants, AreReachedThroughTheirHandles) {
  const std::vector<Descendant> found = find_descendants(::getpid());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(signal_process(found[0].handle, SIGUSR1));
  EXPECT_EQ(family_.wait(), -SIGUSR1);
  EXPECT_FALSE(signal_process(found[0].handle, SIGUSR1)) << "it is gone, whoever has its number now";
}

TEST_F(Descendants, AreChildrenOfThisProcessOnlyWhenDirect) {
  EXPECT_EQ(children_of_this_process(), std::vector<pid_t>{family_.pid()});
}

TEST_F(Descendants, IncludeTheDeadThatNobodyWaitedFor) {
  const Watched watched({family_.pid()});
  ::kill(family_.pid(), SIGKILL);
  ASSERT_TRUE(watched.all_end());
  EXPECT_TRUE(std::ranges::count(children_of_this_process(), family_.pid()));
  const std::vector<Descendant> found = find_descendants(::getpid());
  const auto dead =
      std::ranges::find_if(found, [&](const Descendant& one) { return one.status.identity.pid == family_.pid(); });
  ASSERT_NE(dead, found.end());
  EXPECT_TRUE(dead->status.ended);
}

}  // namespace
}  // namespace muster::launch
