#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "rendezvous/membership.hpp"
#include "rendezvous/sealed_channel.hpp"

namespace muster::rendezvous {
namespace {

// A connection that has not joined by then is dropped.
constexpr std::chrono::seconds patience_with_strangers(30);

class AgentHandler final : public ConnectionHandler {
 public:
  AgentHandler(std::unique_ptr<Membership> membership, AgentAccess access, Outbox& outbox,
               std::function<void()> on_new_round)
      : membership_(std::move(membership)),
        access_(std::move(access)),
        outbox_(outbox),
        on_new_round_(std::move(on_new_round)) {}

  void opened(ConnectionId connection, const std::string& peer) override {
    agents_.try_emplace(connection, Agent{SealedChannel(SealedChannel::Side::coordinator, access_.secret), peer});
    strangers_.insert(connection);
    arrivals_.push_back({Clock::now() + patience_with_strangers, connection});
  }

  std::optional<std::size_t> received(ConnectionId connection, std::string_view bytes) override {
    std::size_t used = 0;
    for (auto end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n', used)) {
      hear(connection, bytes.substr(used, end - used));
      used = end + 1;
    }
    if (bytes.size() - used > agents_.at(connection).channel.longest_line()) return std::nullopt;
    return used;
  }

  void closed(ConnectionId connection) override {
    const Agent& agent = agents_.at(connection);
    if (agent.channel.established() && access_.member_left) access_.member_left(agent.peer);
    agents_.erase(connection);
    strangers_.erase(connection);
    carry_out(membership_->lost(connection, Clock::now()));
  }

  std::optional<Clock::time_point> tick(Clock::time_point now) override {
    carry_out(membership_->passed(now));
    drop_late_strangers(now);
    const std::optional<Clock::time_point> next = membership_->next_deadline();
    if (arrivals_.empty()) return next;
    return std::min(next.value_or(arrivals_.front().deadline), arrivals_.front().deadline);
  }

 private:
  struct Agent {
    SealedChannel channel;
    std::string peer;
    bool dismissed = false;  // refused, and not closed yet
  };
  struct Arrival {
    Clock::time_point deadline;
    ConnectionId connection{};
  };

  void hear(ConnectionId connection, std::string_view line) {
    Agent& agent = agents_.at(connection);
    if (agent.dismissed) return;
    const bool was_stranger = !agent.channel.established();
    const SealedChannel::Heard heard = agent.channel.hear(line);
    if (!heard.reply.empty()) outbox_.send(connection, heard.reply);
    if (heard.broken) return dismiss(connection, agent);
    if (was_stranger && agent.channel.established()) {
      outbox_.trust(connection);
      if (access_.member_came) access_.member_came(agent.peer);
    }
    if (heard.message) take(connection, *heard.message);
  }

  void take(ConnectionId connection, std::string_view text) {
    const Result<AgentMessage> message = decode_agent_message(text);
    if (!message) return refuse(connection, Refuse{to_string(message.error()), false});
    if (std::holds_alternative<Join>(*message)) strangers_.erase(connection);
    carry_out(membership_->heard(connection, *message, Clock::now()));
  }

  void carry_out(const std::vector<Order>& orders) {
    if (membership_->round() != announced_round_) {
      announced_round_ = membership_->round();
      if (on_new_round_) on_new_round_();
    }
    for (const Order& order : orders) {
      if (const auto* refusal = std::get_if<Refuse>(&order.message))
        refuse(order.to, *refusal);
      else
        say(order.to, order.message);
    }
  }

  // A connection that is gone swallows it, as the outbox does.
  void say(ConnectionId connection, const CoordinatorMessage& message) {
    const auto agent = agents_.find(connection);
    if (agent != agents_.end()) outbox_.send(connection, agent->second.channel.seal(encode(message)));
  }

  void refuse(ConnectionId connection, const Refuse& refusal) {
    say(connection, refusal);
    if (const auto agent = agents_.find(connection); agent != agents_.end()) dismiss(connection, agent->second);
  }

  // Listens to it no more; it is lost when the connection is closed, or else by its silence.
  void dismiss(ConnectionId connection, Agent& agent) {
    agent.dismissed = true;
    outbox_.close(connection);
  }

  void drop_late_strangers(Clock::time_point now) {
    while (!arrivals_.empty() && arrivals_.front().deadline <= now) {
      if (strangers_.erase(arrivals_.front().connection) > 0) outbox_.close(arrivals_.front().connection);
      arrivals_.pop_front();
    }
  }

  std::unique_ptr<Membership> membership_;
  const AgentAccess access_;
  Outbox& outbox_;
  std::function<void()> on_new_round_;
  int announced_round_ = -1;
  std::unordered_map<ConnectionId, Agent> agents_;
  std::unordered_set<ConnectionId> strangers_;  // that have not joined
  std::deque<Arrival> arrivals_;                // the oldest first; some have joined meanwhile
};

}  // namespace

std::unique_ptr<ConnectionHandler> make_agent_handler(std::unique_ptr<Membership> membership, AgentAccess access,
                                                      Outbox& outbox, std::function<void()> on_new_round) {
  return std::make_unique<AgentHandler>(std::move(membership), std::move(access), outbox, std::move(on_new_round));
}

}  // namespace muster::rendezvous
