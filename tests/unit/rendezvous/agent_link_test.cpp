#include "rendezvous/agent_link.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "testing/contains.hpp"

namespace muster::rendezvous {
namespace {

using testing::contains;
using namespace std::chrono_literals;

// A link, and the coordinator's end of its socket in the hand of the test.
class AgentLinkTest : public ::testing::Test {
 protected:
  AgentLinkTest() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw std::runtime_error("socketpair");
    other_end_ = FileDescriptor(ends[0]);
    Join join;
    join.host = "node-1";
    link_.emplace(FileDescriptor(ends[1]), join, "the secret of the run", now_);
  }
  void SetUp() override {
    if (!shakes_hands_) return;
    for (int i = 0; i < 3 && !(other_.established() && messages_.size() == 1); ++i) {
      read();
      ASSERT_TRUE(link_->receive(now_));
    }
    read();
    ASSERT_TRUE(other_.established());
  }

  std::string sealed(const CoordinatorMessage& message) { return other_.seal(encode(message)); }
  void say(const CoordinatorMessage& message) { say_bytes(sealed(message)); }
  void say_bytes(std::string_view bytes) {
    ASSERT_EQ(::send(other_end_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // All that the link has written so far and was not asked for yet.
  std::vector<AgentMessage> heard() {
    read();
    return std::exchange(messages_, {});
  }
  void read() {
    std::array<char, 1 << 16> buffer;
    ssize_t count = 0;
    while ((count = ::recv(other_end_.number(), buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0)
      unread_.append(buffer.data(), static_cast<std::size_t>(count));
    for (auto end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      const auto taken = other_.hear(line);
      if (!taken.reply.empty()) say_bytes(taken.reply);
      if (taken.message) messages_.push_back(decode_agent_message(*taken.message).value());
      ++lines_;
    }
  }
  // Time goes by while the link is looked at often enough.
  bool looks_for(Clock::duration span) {
    const Clock::time_point end = now_ + span;
    while (now_ < end) {
      now_ = std::min<Clock::time_point>(now_ + 500ms, end);
      if (!link_->receive(now_)) return false;
    }
    return true;
  }
  std::string failure() {
    const auto received = link_->receive(now_);
    return received ? "no failure" : received.error().what;
  }

  Clock::time_point now_ = Clock::time_point(1000h);
  FileDescriptor other_end_;
  std::optional<AgentLink> link_;
  SealedChannel other_{SealedChannel::Side::coordinator, "the secret of the run"};
  std::string unread_;
  std::vector<AgentMessage> messages_;
  int lines_ = 0;
  bool shakes_hands_ = true;
};

// Before the handshake.
class AgentLinkGreetingTest : public AgentLinkTest {
 protected:
  AgentLinkGreetingTest() { shakes_hands_ = false; }
};

TEST_F(AgentLinkGreetingTest, SaysNothingAboutTheRunToWhatDoesNotKnowTheSecret) {
  other_ = SealedChannel(SealedChannel::Side::coordinator, "a guess");
  for (int i = 0; i < 3; ++i) {
    read();
    const auto received = link_->receive(now_);
    if (received && !received->empty()) {
      EXPECT_TRUE(contains(std::get<Refuse>(received->at(0)).reason, "secret", "--insecure"));
      EXPECT_FALSE(std::get<Refuse>(received->at(0)).retry);
    }
  }
  EXPECT_EQ(lines_, 2);  // the greeting and the proof
  EXPECT_TRUE(messages_.empty());
}

TEST_F(AgentLinkGreetingTest, TakesNoOrderThatIsNotSealed) {
  read();
  ASSERT_TRUE(link_->receive(now_));
  say_bytes(encode(CoordinatorMessage(Start{})));
  EXPECT_TRUE(contains(failure(), "coordinator"));
}

TEST_F(AgentLinkGreetingTest, CleansTheWordsOfACoordinatorThatRefuses) {
  say_bytes("{\"message\":\"refuse\",\"reason\":\"\\u001b]0;owned\\u0007\",\"retry\":true}\n");
  const auto received = link_->receive(now_);
  ASSERT_TRUE(received);
  EXPECT_EQ(std::get<Refuse>(received->at(0)).reason.find('\x1b'), std::string::npos);
}

TEST_F(AgentLinkTest, BreaksOnALineWithTheWrongSeal) {
  std::string line = sealed(Stop{0, "node-4 joined"});
  line[0] = line[0] == '0' ? '1' : '0';
  say_bytes(line);
  EXPECT_TRUE(contains(failure(), "seal"));
}

TEST_F(AgentLinkTest, BreaksOnALineThatComesASecondTime) {
  const std::string line = sealed(Stop{0, "node-4 joined"});
  say_bytes(line);
  ASSERT_TRUE(link_->receive(now_));
  say_bytes(line);
  EXPECT_TRUE(contains(failure(), "seal"));
}

TEST_F(AgentLinkTest, JoinsAfterTheHandshake) {
  const auto messages = heard();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(std::get<Join>(messages[0]).host, "node-1");
}

TEST_F(AgentLinkTest, NeverWaits) {
  const auto received = link_->receive(now_);
  ASSERT_TRUE(received);
  EXPECT_TRUE(received->empty());
}

TEST_F(AgentLinkTest, BringsMessagesInTheirOrder) {
  const std::string welcome = sealed(Welcome{});
  say_bytes(welcome + sealed(Start{}));
  say(Stop{0, "node-4 joined"});
  const auto received = link_->receive(now_);
  ASSERT_TRUE(received);
  ASSERT_EQ(received->size(), 3u);
  EXPECT_TRUE(std::holds_alternative<Welcome>(received->at(0)));
  EXPECT_TRUE(std::holds_alternative<Start>(received->at(1)));
  EXPECT_EQ(std::get<Stop>(received->at(2)).reason, "node-4 joined");
}

TEST_F(AgentLinkTest, PutsAMessageTogetherThatComesInPieces) {
  const std::string line = sealed(Stop{7, "node-4 joined"});
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    say_bytes(line.substr(i, 1));
    ASSERT_TRUE(link_->receive(now_)->empty());
  }
  say_bytes("\n");
  const auto received = link_->receive(now_);
  ASSERT_EQ(received->size(), 1u);
  EXPECT_EQ(std::get<Stop>(received->at(0)).round, 7);
}

TEST_F(AgentLinkTest, GivesASignOfLifeInEachIntervalOfTheTerms) {
  say(Welcome{250ms, 2s});
  ASSERT_TRUE(link_->receive(now_));
  heard();
  EXPECT_EQ(link_->next_deadline(), now_ + 250ms);
  now_ += 249ms;
  ASSERT_TRUE(link_->receive(now_));
  EXPECT_TRUE(heard().empty());
  now_ += 1ms;
  ASSERT_TRUE(link_->receive(now_));
  const auto messages = heard();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Alive>(messages[0]));
  EXPECT_EQ(link_->next_deadline(), now_ + 250ms);
}

TEST_F(AgentLinkTest, NoticesACoordinatorThatFallsSilent) {
  say(Welcome{1s, 5s});
  ASSERT_TRUE(link_->receive(now_));
  ASSERT_TRUE(looks_for(4s));
  say(Alive{});
  ASSERT_TRUE(link_->receive(now_));
  ASSERT_TRUE(looks_for(4999ms));
  EXPECT_LE(link_->next_deadline(), now_ + 1ms);
  now_ += 1ms;
  EXPECT_TRUE(contains(failure(), "coordinator", "5 s"));
}

TEST_F(AgentLinkTest, AfterAPauseOfItsOwnTheSilenceCountsFromNow) {
  say(Welcome{1s, 5s});
  ASSERT_TRUE(link_->receive(now_));
  now_ += 60s;
  EXPECT_TRUE(link_->receive(now_));
  ASSERT_TRUE(looks_for(4999ms));
  now_ += 1ms;
  EXPECT_TRUE(contains(failure(), "coordinator", "5 s"));
}

TEST_F(AgentLinkTest, ReadsWhatCameBeforeItCallsTheCoordinatorSilent) {
  say(Welcome{1s, 5s});
  ASSERT_TRUE(link_->receive(now_));
  say(Alive{});
  now_ += 60s;
  EXPECT_TRUE(link_->receive(now_));
}

TEST_F(AgentLinkTest, HasMorePatienceBeforeTheWelcome) {
  EXPECT_TRUE(looks_for(29s));
  now_ += 1s;
  EXPECT_TRUE(contains(failure(), "30 s"));
}

TEST_F(AgentLinkTest, BringsTheLastWordsOfACoordinatorBeforeItsEnd) {
  say(Finish{true, "all ranks ended well", std::nullopt});
  other_end_ = FileDescriptor();
  link_->send(Alive{});  // goes nowhere, and raises no SIGPIPE
  const auto received = link_->receive(now_);
  ASSERT_TRUE(received);
  ASSERT_EQ(received->size(), 1u);
  EXPECT_TRUE(std::get<Finish>(received->at(0)).success);
  EXPECT_LE(link_->next_deadline(), now_);
  EXPECT_TRUE(contains(failure(), "coordinator", "connection ended"));
  EXPECT_TRUE(contains(failure(), "connection ended"));
}

TEST_F(AgentLinkTest, KeepsWhatTheSocketDoesNotTakeYet) {
  heard();
  const std::string failure_text(512 * 1024, 'x');
  int sent = 0;
  while (!link_->wants_to_write() && sent < 8) {
    link_->send(Failed{sent, 0ms, failure_text});
    ++sent;
  }
  ASSERT_TRUE(link_->wants_to_write());
  link_->send(Stopped{99});
  std::vector<AgentMessage> messages;
  for (int i = 0; i < 1000 && link_->wants_to_write(); ++i) {
    for (auto& message : heard()) messages.push_back(std::move(message));
    ASSERT_TRUE(link_->receive(now_));
  }
  for (auto& message : heard()) messages.push_back(std::move(message));
  ASSERT_EQ(messages.size(), static_cast<std::size_t>(sent) + 1);
  EXPECT_EQ(std::get<Failed>(messages[0]).failure, failure_text);
  EXPECT_EQ(std::get<Stopped>(messages.back()).round, 99);
}

TEST_F(AgentLinkTest, QueuesNoHeartbeatsBehindWhatIsStuck) {
  for (int i = 0; i < 8 && !link_->wants_to_write(); ++i) link_->send(Failed{i, 0ms, std::string(512 * 1024, 'x')});
  ASSERT_TRUE(link_->wants_to_write());
  for (int i = 0; i < 20; ++i) {
    now_ += 1s;
    ASSERT_TRUE(link_->receive(now_));
  }
  int heartbeats = 0;
  for (int i = 0; i < 1000 && link_->wants_to_write(); ++i) {
    for (const auto& message : heard()) heartbeats += std::holds_alternative<Alive>(message) ? 1 : 0;
    ASSERT_TRUE(link_->receive(now_));
  }
  EXPECT_EQ(heartbeats, 0);
}

TEST_F(AgentLinkTest, BreaksWhenTheCoordinatorReadsNothingAtAll) {
  for (int i = 0; i < 20; ++i) link_->send(Failed{0, 0ms, std::string(512 * 1024, 'x')});
  EXPECT_TRUE(contains(failure(), "unread"));
}

TEST_F(AgentLinkTest, BreaksOnJunk) {
  say_bytes(other_.seal("HTTP/1.1 400 Bad Request\n"));
  EXPECT_TRUE(contains(failure(), "cannot be read"));
}

TEST_F(AgentLinkTest, BreaksOnAMessageWithoutAnEnd) {
  const std::string junk(64 * 1024, '{');
  for (std::size_t sent = 0; sent <= longest_message + seal_size; sent += junk.size()) {
    say_bytes(junk);
    if (!link_->receive(now_)) break;
  }
  EXPECT_TRUE(contains(failure(), "without an end"));
}

}  // namespace
}  // namespace muster::rendezvous
