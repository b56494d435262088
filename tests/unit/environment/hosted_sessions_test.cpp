// Sessions that others play: bounded, each for one at a time, and gone when nobody steps them.
#include <gtest/gtest.h>

#include "environment/hosted_sessions.hpp"

namespace muster::environment {
namespace {

using namespace std::chrono_literals;
using Absence = HostedSessions::Absence;
using Claimed = std::variant<std::unique_ptr<HostedSessions::Claim>, Absence>;

// Ends with the answer "end".
class Echo final : public Session {
 public:
  explicit Echo(int* alive) : alive_(alive) { ++*alive_; }
  ~Echo() override { --*alive_; }
  const std::vector<Message>& messages() const override { return messages_; }
  Step step(const std::string& answer) override { return {.messages = {}, .reward = 1, .done = answer == "end"}; }

 private:
  int* alive_;
  std::vector<Message> messages_ = {{"user", "?"}};
};

class Sessions : public ::testing::Test {
 protected:
  std::string begin() { return sessions_.begin(sessions_.reserve(), "echo", std::make_unique<Echo>(&alive_)); }
  std::optional<Absence> absence(const std::string& id) {
    const Claimed claimed = sessions_.claim(id);
    return std::holds_alternative<Absence>(claimed) ? std::optional(std::get<Absence>(claimed)) : std::nullopt;
  }

  HostedSessions::Clock::time_point now_{};
  int alive_ = 0;
  HostedSessions sessions_{3, 10s, [this] { return now_; }};
};

TEST_F(Sessions, HaveIdsOfTheirOwnThatAreNotCounted) {
  const std::string first = begin(), second = begin();
  EXPECT_EQ(first.size(), 36u);
  EXPECT_NE(first, second);
  EXPECT_EQ(first[14], '4');
  EXPECT_EQ(absence(first), std::nullopt);
  EXPECT_EQ(absence("1"), Absence::unknown);
}

TEST_F(Sessions, AreNoMoreThanTheyMayBe) {
  const std::string first = begin();
  begin();
  const auto third = sessions_.reserve();
  EXPECT_TRUE(third);
  EXPECT_FALSE(sessions_.reserve()) << "one that is about to begin counts";
  std::get<0>(sessions_.claim(first))->step("end");
  EXPECT_TRUE(sessions_.reserve());
}

TEST_F(Sessions, AreSteppedByOneAtATime) {
  const std::string id = begin();
  auto claimed = sessions_.claim(id);
  EXPECT_EQ(absence(id), Absence::busy);
  std::get<0>(claimed)->step("word");
  claimed = Absence::unknown;
  EXPECT_EQ(absence(id), std::nullopt);
}

TEST_F(Sessions, AreGoneWhenTheirEpisodeIsOver) {
  const std::string id = begin(), other = begin();
  std::get<0>(sessions_.claim(id))->step("end");
  EXPECT_EQ(std::get<0>(sessions_.claim(other))->end_early(), 0);
  EXPECT_EQ(absence(id), Absence::over);
  EXPECT_EQ(absence(other), Absence::over);
  EXPECT_EQ(alive_, 0);
}

TEST_F(Sessions, ExpireWhenNobodyStepsThem) {
  const std::string idle = begin(), used = begin();
  now_ += 9s;
  EXPECT_EQ(absence(used), std::nullopt);
  auto held = sessions_.claim(used);
  now_ += 9s;
  EXPECT_EQ(absence(idle), Absence::expired);
  now_ += 20s;
  sessions_.remove_expired();
  EXPECT_EQ(alive_, 1) << "one that is being stepped stays";
  held = Absence::unknown;
  EXPECT_EQ(absence(used), std::nullopt);
  now_ += 10s;
  sessions_.remove_expired();
  EXPECT_EQ(alive_, 0);
  EXPECT_EQ(sessions_.count(), 0u);
}

}  // namespace
}  // namespace muster::environment
