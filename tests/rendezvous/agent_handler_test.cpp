#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "rendezvous/membership.hpp"
#include "testing/contains.hpp"

namespace muster::rendezvous {
namespace {

using testing::contains;
using namespace std::chrono_literals;

// Keeps what is sent, decoded, in order.
class KeepingOutbox : public Outbox {
 public:
  void send(ConnectionId connection, std::string_view bytes) override {
    ASSERT_TRUE(bytes.ends_with('\n'));
    sent_[static_cast<int>(connection)].push_back(
        decode_coordinator_message(bytes.substr(0, bytes.size() - 1)).value());
    ++count_;
  }
  void close(ConnectionId connection) override { closed_.insert(static_cast<int>(connection)); }

  const std::vector<CoordinatorMessage>& sent_to(int connection) { return sent_[connection]; }
  template <class Kind>
  bool last_was(int connection) {
    return !sent_[connection].empty() && std::holds_alternative<Kind>(sent_[connection].back());
  }
  bool is_closed(int connection) const { return closed_.contains(connection); }
  int count() const { return count_; }

 private:
  std::map<int, std::vector<CoordinatorMessage>> sent_;
  std::set<int> closed_;
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
    handler_ = make_agent_handler(Membership::make(rules, Clock::now()), outbox_, [this] {
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
  void connect(int connection) { handler_->opened(static_cast<ConnectionId>(connection), "127.0.0.1:1"); }
  void join(int connection) {
    connect(connection);
    const std::string line = join_line(connection);
    EXPECT_EQ(receive(connection, line), line.size());
  }
  void say(int connection, const AgentMessage& message) { receive(connection, encode(message)); }

  KeepingOutbox outbox_;
  std::unique_ptr<ConnectionHandler> handler_;
  int rounds_ = 0;
  int sent_before_round_ = 0;
};

TEST_F(AgentHandler, AnswersAJoinWithAWelcome) {
  join(1);
  EXPECT_TRUE(outbox_.last_was<Welcome>(1));
}

TEST_F(AgentHandler, LeavesAnUnfinishedLineUnused) {
  connect(1);
  const std::string line = join_line(1);
  EXPECT_EQ(receive(1, line.substr(0, 10)), 0u);
  EXPECT_EQ(receive(1, line + line.substr(0, 10)), line.size());
  EXPECT_TRUE(outbox_.last_was<Welcome>(1));
}

TEST_F(AgentHandler, TellsOfANewRoundBeforeItsStartsGoOut) {
  join(1);
  EXPECT_EQ(rounds_, 0);
  join(2);
  EXPECT_EQ(rounds_, 1);
  EXPECT_EQ(sent_before_round_, 1);  // the first one's Welcome
  EXPECT_TRUE(outbox_.last_was<Start>(1));
  EXPECT_TRUE(outbox_.last_was<Start>(2));
  say(1, Failed{0, 0ms, "{}"});
  say(1, Stopped{0});
  EXPECT_EQ(rounds_, 1);
  say(2, Stopped{0});
  EXPECT_EQ(rounds_, 2);
}

TEST_F(AgentHandler, TakesSeveralMessagesAtOnce) {
  join(1);
  join(2);
  receive(1, encode(AgentMessage(Failed{0, 0ms, "{}"})) + encode(AgentMessage(Stopped{0})));
  say(2, Stopped{0});
  EXPECT_EQ(rounds_, 2);
}

TEST_F(AgentHandler, TakesAClosedConnectionForALoss) {
  join(1);
  join(2);
  handler_->closed(static_cast<ConnectionId>(2));
  EXPECT_TRUE(outbox_.last_was<Stop>(1));
}

TEST_F(AgentHandler, SaysWhyBeforeItClosesOnJunk) {
  connect(1);
  EXPECT_TRUE(receive(1, "{\"message\":\"dance\"}\n"));
  ASSERT_TRUE(outbox_.last_was<Refuse>(1));
  EXPECT_TRUE(contains(std::get<Refuse>(outbox_.sent_to(1).back()).reason, "dance", "same muster"));
  EXPECT_TRUE(outbox_.is_closed(1));
}

TEST_F(AgentHandler, ClosesWhomItRefusesAndListensNoMore) {
  connect(1);
  receive(1, encode(AgentMessage(Join{})) + join_line(1));
  EXPECT_TRUE(outbox_.last_was<Refuse>(1));
  EXPECT_EQ(outbox_.sent_to(1).size(), 1u);
  EXPECT_TRUE(outbox_.is_closed(1));
}

TEST_F(AgentHandler, CallsALineWithoutAnEndJunk) {
  connect(1);
  const std::string long_line(longest_message + 1, '{');
  EXPECT_EQ(receive(1, std::string_view(long_line).substr(0, longest_message)), 0u);
  EXPECT_EQ(receive(1, long_line), std::nullopt);
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
  EXPECT_TRUE(outbox_.last_was<Alive>(1));
}

}  // namespace
}  // namespace muster::rendezvous
