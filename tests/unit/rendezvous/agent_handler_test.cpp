#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "rendezvous/membership.hpp"
#include "rendezvous/sealed_channel.hpp"
#include "testing/contains.hpp"

namespace muster::rendezvous {
namespace {

using testing::contains;
using namespace std::chrono_literals;

constexpr const char* secret = "the secret of the run";

// Keeps what is sent, as lines; each connection has an agent that can read them.
class KeepingOutbox : public Outbox {
 public:
  void send(ConnectionId connection, std::string_view bytes) override {
    ASSERT_TRUE(bytes.ends_with('\n'));
    lines_[static_cast<int>(connection)].emplace_back(bytes.substr(0, bytes.size() - 1));
    ++count_;
  }
  void close(ConnectionId connection) override { closed_.insert(static_cast<int>(connection)); }
  void trust(ConnectionId connection) override { trusted_.insert(static_cast<int>(connection)); }

  std::vector<std::string> take(int connection) { return std::exchange(lines_[connection], {}); }
  bool is_closed(int connection) const { return closed_.contains(connection); }
  bool is_trusted(int connection) const { return trusted_.contains(connection); }
  int count() const { return count_; }

 private:
  std::map<int, std::vector<std::string>> lines_;
  std::set<int> closed_;
  std::set<int> trusted_;
  int count_ = 0;
};

class AgentHandler : public ::testing::Test {
 protected:
  AgentHandler() {
    MembershipRules rules;
    rules.run_id = "run";
    rules.minimum_hosts = 2;
    rules.maximum_hosts = 2;
    rules.maximum_restarts = 1;
    AgentAccess access{secret, [this](const std::string& peer) { members_.insert(peer); },
                       [this](const std::string& peer) { members_.erase(members_.find(peer)); }};
    handler_ = make_agent_handler(Membership::make(rules, Clock::now()), access, outbox_, [this] {
      ++rounds_;
      sent_before_round_ = outbox_.count();
    });
  }

  static std::string join_line(int connection) {
    Join join;
    join.run_id = "run";
    join.host = fmt::format("node-{}", connection);
    return encode(AgentMessage(join));
  }
  std::optional<std::size_t> receive(int connection, std::string_view bytes) {
    return handler_->received(static_cast<ConnectionId>(connection), bytes);
  }
  void connect(int connection, const std::string& known_secret = secret) {
    handler_->opened(static_cast<ConnectionId>(connection), fmt::format("10.0.0.{}:1", connection));
    agents_.insert_or_assign(connection, SealedChannel(SealedChannel::Side::agent, known_secret));
    receive(connection, channel(connection).opening());
  }
  // Both sides prove themselves.
  void greet(int connection) {
    connect(connection);
    read(connection);
    read(connection);
    ASSERT_TRUE(channel(connection).established());
  }
  void join(int connection) {
    greet(connection);
    const std::string line = sealed(connection, join_line(connection));
    EXPECT_EQ(receive(connection, line), line.size());
  }
  SealedChannel& channel(int connection) { return agents_.at(connection); }
  std::string sealed(int connection, const std::string& line) { return channel(connection).seal(line); }
  void say(int connection, const AgentMessage& message) { receive(connection, sealed(connection, encode(message))); }
  // Takes what was sent to it; what the handshake asks for is answered.
  void read(int connection) {
    for (const std::string& line : outbox_.take(connection)) {
      const auto heard = channel(connection).hear(line);
      if (!heard.reply.empty()) receive(connection, heard.reply);
      if (heard.refused) messages_[connection].push_back(*heard.refused);
      if (heard.message) messages_[connection].push_back(decode_coordinator_message(*heard.message).value());
    }
  }
  const std::vector<CoordinatorMessage>& sent_to(int connection) {
    read(connection);
    return messages_[connection];
  }
  template <class Kind>
  bool last_was(int connection) {
    return !sent_to(connection).empty() && std::holds_alternative<Kind>(sent_to(connection).back());
  }
  std::string refusal(int connection) {
    return last_was<Refuse>(connection) ? std::get<Refuse>(sent_to(connection).back()).reason : "no refusal";
  }

  KeepingOutbox outbox_;
  std::unique_ptr<ConnectionHandler> handler_;
  std::map<int, SealedChannel> agents_;
  std::map<int, std::vector<CoordinatorMessage>> messages_;
  std::multiset<std::string> members_;
  int rounds_ = 0;
  int sent_before_round_ = 0;
};

TEST_F(AgentHandler, AnswersAJoinWithAWelcome) {
  join(1);
  EXPECT_TRUE(last_was<Welcome>(1));
}

TEST_F(AgentHandler, LeavesAnUnfinishedLineUnused) {
  greet(1);
  const std::string line = sealed(1, join_line(1));
  EXPECT_EQ(receive(1, line.substr(0, 10)), 0u);
  EXPECT_EQ(receive(1, line + line.substr(0, 10)), line.size());
  EXPECT_TRUE(last_was<Welcome>(1));
}

TEST_F(AgentHandler, TellsOfANewRoundBeforeItsStartsGoOut) {
  join(1);
  EXPECT_EQ(rounds_, 0);
  greet(2);
  const int before = outbox_.count();
  say(2, decode_agent_message(join_line(2).substr(0, join_line(2).size() - 1)).value());
  EXPECT_EQ(rounds_, 1);
  EXPECT_EQ(sent_before_round_, before);
  EXPECT_TRUE(last_was<Start>(1));
  EXPECT_TRUE(last_was<Start>(2));
  say(1, Failed{0, 0ms, "{}"});
  say(1, Stopped{0});
  EXPECT_EQ(rounds_, 1);
  say(2, Stopped{0});
  EXPECT_EQ(rounds_, 2);
}

TEST_F(AgentHandler, TakesSeveralMessagesAtOnce) {
  join(1);
  join(2);
  const std::string failed = sealed(1, encode(AgentMessage(Failed{0, 0ms, "{}"})));
  receive(1, failed + sealed(1, encode(AgentMessage(Stopped{0}))));
  say(2, Stopped{0});
  EXPECT_EQ(rounds_, 2);
}

TEST_F(AgentHandler, TakesAClosedConnectionForALoss) {
  join(1);
  join(2);
  handler_->closed(static_cast<ConnectionId>(2));
  EXPECT_TRUE(last_was<Stop>(1));
}

TEST_F(AgentHandler, SaysWhyBeforeItClosesOnJunk) {
  greet(1);
  EXPECT_TRUE(receive(1, sealed(1, "{\"message\":\"dance\"}\n")));
  EXPECT_TRUE(contains(refusal(1), "dance", "same muster"));
  EXPECT_TRUE(outbox_.is_closed(1));
}

TEST_F(AgentHandler, ClosesWhomItRefusesAndListensNoMore) {
  greet(1);
  const std::string first = sealed(1, encode(AgentMessage(Join{})));
  receive(1, first + sealed(1, join_line(1)));
  EXPECT_TRUE(last_was<Refuse>(1));
  EXPECT_EQ(sent_to(1).size(), 1u);
  EXPECT_TRUE(outbox_.is_closed(1));
}

TEST_F(AgentHandler, CallsALineWithoutAnEndJunk) {
  greet(1);
  const std::size_t longest = seal_size + longest_message;
  const std::string long_line(longest + 1, '{');
  EXPECT_EQ(receive(1, std::string_view(long_line).substr(0, longest)), 0u);
  EXPECT_EQ(receive(1, long_line), std::nullopt);
}

TEST_F(AgentHandler, KeepsNoMoreOfAStrangerThanAGreeting) {
  connect(1);
  const std::string long_line(longest_greeting + 1, '{');
  EXPECT_EQ(receive(1, std::string_view(long_line).substr(0, longest_greeting)), 0u);
  EXPECT_EQ(receive(1, long_line), std::nullopt);
}

TEST_F(AgentHandler, TellsAStrangerNothingAboutTheRun) {
  connect(1, "a guess");
  read(1);
  EXPECT_TRUE(contains(refusal(1), "--rdzv-secret-file", "--insecure"));
  EXPECT_FALSE(contains(refusal(1), "\"run\""));
  EXPECT_TRUE(outbox_.is_closed(1));
  EXPECT_FALSE(outbox_.is_trusted(1));
  EXPECT_TRUE(members_.empty());
}

TEST_F(AgentHandler, TakesNothingThatIsNotSealed) {
  join(1);
  join(2);
  handler_->opened(ConnectionId{3}, "10.0.0.3:1");
  for (const std::string& line : {join_line(3), encode(AgentMessage(Failed{0, 0ms, "{}"}))}) receive(3, line);
  EXPECT_TRUE(outbox_.is_closed(3));
  // Nor over the connection of a member, whose seal it cannot make.
  receive(1, encode(AgentMessage(Failed{0, 0ms, "{}"})));
  EXPECT_TRUE(outbox_.is_closed(1));
  EXPECT_EQ(rounds_, 1);
  EXPECT_TRUE(last_was<Start>(2));
}

TEST_F(AgentHandler, TakesASealedLineOnce) {
  join(1);
  join(2);
  const std::string line = sealed(1, encode(AgentMessage(Alive{})));
  receive(1, line);
  EXPECT_FALSE(outbox_.is_closed(1));
  receive(1, line);
  EXPECT_TRUE(outbox_.is_closed(1));
}

TEST_F(AgentHandler, ALineOfOneConnectionIsWorthNothingOnAnother) {
  join(1);
  greet(2);
  receive(2, sealed(1, join_line(2)));
  EXPECT_TRUE(outbox_.is_closed(2));
  EXPECT_EQ(rounds_, 0);
}

TEST_F(AgentHandler, TellsWhichAddressesHaveProvedThemselves) {
  connect(1);
  EXPECT_TRUE(members_.empty());
  read(1);
  EXPECT_EQ(members_, std::multiset<std::string>{"10.0.0.1:1"});
  EXPECT_TRUE(outbox_.is_trusted(1));
  handler_->closed(ConnectionId{1});
  EXPECT_TRUE(members_.empty());
}

TEST_F(AgentHandler, AgentsOfAnotherVersionAreToldSo) {
  handler_->opened(ConnectionId{1}, "10.0.0.1:1");
  receive(1, "{\"message\":\"join\",\"protocol\":1,\"run_id\":\"run\"}\n");
  ASSERT_EQ(outbox_.count(), 1);
  const auto told = decode_coordinator_message(outbox_.take(1).front());
  EXPECT_TRUE(contains(std::get<Refuse>(told.value()).reason, "version 2", "same muster"));
}

TEST_F(AgentHandler, DropsAConnectionThatNeverJoins) {
  connect(1);
  join(2);
  const auto now = Clock::now();
  ASSERT_TRUE(handler_->tick(now));
  EXPECT_LE(*handler_->tick(now), now + 31s);
  EXPECT_FALSE(outbox_.is_closed(1));
  handler_->tick(now + 31s);
  EXPECT_TRUE(outbox_.is_closed(1));
  EXPECT_FALSE(outbox_.is_closed(2));
}

TEST_F(AgentHandler, SendsHeartbeatsWhenTheyAreDue) {
  join(1);
  const auto next = handler_->tick(Clock::now());
  ASSERT_TRUE(next);
  handler_->tick(*next);
  EXPECT_TRUE(last_was<Alive>(1));
}

}  // namespace
}  // namespace muster::rendezvous
