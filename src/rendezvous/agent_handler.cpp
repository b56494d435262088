#include <algorithm>
#include <deque>
#include <unordered_set>
#include <utility>

#include "rendezvous/membership.hpp"

namespace muster::rendezvous {
namespace {

// A connection that has not joined by then is dropped.
constexpr std::chrono::seconds patience_with_strangers(30);

class AgentHandler final : public ConnectionHandler {
 public:
  AgentHandler(std::unique_ptr<Membership> membership, Outbox& outbox, std::function<void()> on_new_round)
      : membership_(std::move(membership)), outbox_(outbox), on_new_round_(std::move(on_new_round)) {}

  void opened(ConnectionId connection, const std::string&) override {
    strangers_.insert(connection);
    arrivals_.push_back({Clock::now() + patience_with_strangers, connection});
  }

  std::optional<std::size_t> received(ConnectionId connection, std::string_view bytes) override {
    std::size_t used = 0;
    for (auto end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n', used)) {
      hear(connection, bytes.substr(used, end - used));
      used = end + 1;
    }
    if (bytes.size() - used > longest_message) return std::nullopt;
    return used;
  }

  void closed(ConnectionId connection) override {
    strangers_.erase(connection);
    dismissed_.erase(connection);
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
  struct Arrival {
    Clock::time_point deadline;
    ConnectionId connection{};
  };

  void hear(ConnectionId connection, std::string_view line) {
    if (dismissed_.contains(connection)) return;
    const Result<AgentMessage> message = decode_agent_message(line);
    if (!message) return dismiss(connection, Refuse{to_string(message.error()), false});
    if (std::holds_alternative<Join>(*message)) strangers_.erase(connection);
    carry_out(membership_->heard(connection, *message, Clock::now()));
  }

  void carry_out(const std::vector<Order>& orders) {
    if (membership_->round() != announced_round_) {
      announced_round_ = membership_->round();
      if (on_new_round_) on_new_round_();
    }
    for (const Order& order : orders) {
      if (const auto* refuse = std::get_if<Refuse>(&order.message))
        dismiss(order.to, *refuse);
      else
        outbox_.send(order.to, encode(order.message));
    }
  }

  // Tells it why and listens no more; it is lost when the connection is closed, or else by its silence.
  void dismiss(ConnectionId connection, const Refuse& refuse) {
    outbox_.send(connection, encode(refuse));
    outbox_.close(connection);
    dismissed_.insert(connection);
  }

  void drop_late_strangers(Clock::time_point now) {
    while (!arrivals_.empty() && arrivals_.front().deadline <= now) {
      if (strangers_.erase(arrivals_.front().connection) > 0) outbox_.close(arrivals_.front().connection);
      arrivals_.pop_front();
    }
  }

  std::unique_ptr<Membership> membership_;
  Outbox& outbox_;
  std::function<void()> on_new_round_;
  int announced_round_ = -1;
  std::unordered_set<ConnectionId> strangers_;  // that have not joined
  std::deque<Arrival> arrivals_;                // the oldest first; some are no strangers any more
  std::unordered_set<ConnectionId> dismissed_;  // refused, and not closed yet
};

}  // namespace

std::unique_ptr<ConnectionHandler> make_agent_handler(std::unique_ptr<Membership> membership, Outbox& outbox,
                                                      std::function<void()> on_new_round) {
  return std::make_unique<AgentHandler>(std::move(membership), outbox, std::move(on_new_round));
}

}  // namespace muster::rendezvous
