// A run with a clock of its own: agents are numbers, and what is said to each is kept.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/membership.hpp"

namespace muster::rendezvous {

class MembershipTest : public ::testing::Test {
 protected:
  using milliseconds = std::chrono::milliseconds;
  using seconds = std::chrono::seconds;

  static MembershipRules rules(int minimum, int maximum, int restarts = 0) {
    MembershipRules rules;
    rules.run_id = "run";
    rules.minimum_hosts = minimum;
    rules.maximum_hosts = maximum;
    rules.maximum_restarts = restarts;
    return rules;
  }
  void begin(MembershipRules rules) { membership_ = Membership::make(std::move(rules), now_); }

  // "node-3" with the pid 1003 for agent 3.
  static Join join_of(int agent, std::optional<int> node_rank = std::nullopt) {
    Join join;
    join.run_id = "run";
    join.host = fmt::format("node-{}", agent);
    join.pid = 1000 + agent;
    join.local_world_size = 2;
    join.node_rank = node_rank;
    return join;
  }
  void join(int agent, std::optional<int> node_rank = std::nullopt) { say(agent, join_of(agent, node_rank)); }
  void join_all(int count) {
    for (int agent = 0; agent < count; ++agent) join(agent);
  }
  void join_all_with_node_ranks(int count) {
    for (int agent = 0; agent < count; ++agent) join(agent, agent);
  }
  void say(int agent, const AgentMessage& message) { keep(membership_->heard(connection(agent), message, now_)); }
  void lose(int agent) { keep(membership_->lost(connection(agent), now_)); }
  void fail(int agent, milliseconds age = {}, int rank = 0) {
    say(agent, Failed{round(), age, fmt::format("{{\"rank\":{}}}", rank)});
  }

  // Time goes by; everyone but those named keeps giving signs of life.
  void wait(milliseconds span, const std::vector<int>& silent = {}) {
    const Clock::time_point end = now_ + span;
    while (true) {
      const Clock::time_point next = std::min(membership_->next_deadline().value_or(end), end);
      now_ = std::max(now_, next);
      for (const auto& [agent, messages] : said_)
        if (std::ranges::find(silent, agent) == silent.end())
          keep(membership_->heard(connection(agent), Alive{}, now_));
      keep(membership_->passed(now_));
      if (now_ >= end) return;
    }
  }

  // What was said to the agent since the last question, heartbeats left out.
  std::vector<CoordinatorMessage> said_to(int agent) { return std::exchange(said_[agent], {}); }
  template <class Kind>
  std::optional<Kind> last_said_to(int agent) {
    const std::vector<CoordinatorMessage> messages = said_to(agent);
    if (messages.empty() || !std::holds_alternative<Kind>(messages.back())) return std::nullopt;
    return std::get<Kind>(messages.back());
  }
  std::string refusal_of(int agent) {
    return last_said_to<Refuse>(agent).value_or(Refuse{"not refused", false}).reason;
  }
  void forget_what_was_said() {
    for (auto& [agent, messages] : said_) messages.clear();
  }

  RunState state() const { return membership_->state(); }
  int round() const { return membership_->round(); }

  Clock::time_point now_ = Clock::time_point(std::chrono::hours(1000));
  std::unique_ptr<Membership> membership_;
  int heartbeats_ = 0;

 private:
  static ConnectionId connection(int agent) { return static_cast<ConnectionId>(agent); }
  void keep(const std::vector<Order>& orders) {
    for (const Order& order : orders) {
      if (std::holds_alternative<Alive>(order.message))
        ++heartbeats_;
      else
        said_[static_cast<int>(order.to)].push_back(order.message);
    }
  }

  std::map<int, std::vector<CoordinatorMessage>> said_;
};

}  // namespace muster::rendezvous
