// Thousands of random histories of a run, against agents that behave: what must hold in all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "rendezvous/membership.hpp"

namespace muster::rendezvous {
namespace {

using namespace std::chrono_literals;

// One agent and the two directions of its connection, in each of which messages wait until they are delivered.
struct SimulatedAgent {
  enum class Phase { idle, running, ending, done };

  Join join;
  Phase phase = Phase::idle;
  int round = -1;
  bool silent = false;  // cut off: nothing is delivered either way, and the coordinator has to notice
  bool leaving = false;
  bool joined = false;  // its Join was delivered
  struct Letter {
    AgentMessage message;
    std::optional<Clock::time_point> failed_at;
  };
  std::deque<Letter> to_coordinator;
  std::deque<CoordinatorMessage> to_agent;

  bool has_ranks() const { return phase == Phase::running || phase == Phase::ending; }
};

class World {
 public:
  explicit World(unsigned seed) : chance_(seed) {
    rules_.run_id = "run";
    rules_.maximum_hosts = 1 + pick(6);
    rules_.minimum_hosts = one_in(3) ? rules_.maximum_hosts : 1 + pick(rules_.maximum_hosts);
    rules_.maximum_restarts = one_in(3) ? 0 : pick(4);
    rules_.independent = one_in(5);
    rules_.join_timeout = one_in(2) ? 60s : 10000h;
    has_node_ranks_ = one_in(2);
    has_leader_ = one_in(2);
    membership_ = Membership::make(rules_, now_);
  }

  void live_through_a_history() {
    const int steps = 50 + pick(300);
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) take_a_random_step();
  }

  // From here on nothing goes wrong any more, and as many hosts come as there is room for.
  void come_to_an_end() {
    for (int step = 0; step < 1000 && !everyone_is_told() && !::testing::Test::HasFailure(); ++step) {
      if (membership_->state() != RunState::finished && agents_.size() < static_cast<std::size_t>(rules_.maximum_hosts))
        add_agent();
      deliver_everything();
      for (auto& [id, agent] : agents_) {
        if (agent.phase == SimulatedAgent::Phase::running) succeed(agent);
        if (agent.phase == SimulatedAgent::Phase::ending) finish_ending(agent);
      }
      deliver_everything();
      pass(1s);
    }
    EXPECT_EQ(membership_->state(), RunState::finished) << membership_->describe();
    EXPECT_TRUE(everyone_is_told());
  }

  bool succeeded() const { return outcome_ && outcome_->success; }
  int rounds() const { return membership_->round() + 1; }
  int restarts() const { return restart_count_; }

 private:
  using Phase = SimulatedAgent::Phase;

  int pick(int count) { return static_cast<int>(chance_() % static_cast<unsigned>(count)); }
  bool one_in(int count) { return pick(count) == 0; }

  void take_a_random_step() {
    const int kind = pick(100);
    if (kind < 12 || agents_.empty()) return add_agent();
    const auto at = std::next(agents_.begin(), pick(static_cast<int>(agents_.size())));
    SimulatedAgent& agent = at->second;
    if (kind < 15) return kill(at->first);
    if (kind < 17) return fall_silent(agent);
    if (kind < 23) return fail(agent);
    if (kind < 29) return succeed(agent);
    if (kind < 31) return leave(agent);
    if (kind < 45) return finish_ending(agent);
    if (kind < 60) return deliver_to_agent(at->first);
    if (kind < 75) return deliver_to_coordinator(at->first);
    if (kind < 90) return deliver_everything();
    pass(std::chrono::milliseconds(pick(3000)));
  }

  // ---- what happens to agents ----

  void add_agent() {
    if (agents_.size() > 10) return;
    SimulatedAgent agent;
    const int id = next_id_++;
    agent.join.run_id = "run";
    agent.join.host = fmt::format("node-{}", id);
    agent.join.pid = id;
    agent.join.role = one_in(2) ? "actor" : "learner";
    agent.join.local_world_size = 1 + pick(4);
    agent.join.leads = has_leader_ && id == 0;
    if (has_node_ranks_) agent.join.node_rank = id == 0 ? 0 : pick(rules_.maximum_hosts);
    agent.to_coordinator.push_back({agent.join, std::nullopt});
    agents_.emplace(id, std::move(agent));
  }

  // Its ranks end with it; what it had sent may or may not have arrived.
  void kill(int id) {
    if (agents_.at(id).join.leads) return;
    while (one_in(2) && !agents_.at(id).to_coordinator.empty() && !agents_.at(id).silent) {
      deliver_to_coordinator(id);
      if (!agents_.contains(id)) return;
    }
    agents_.erase(id);
    obey(membership_->lost(static_cast<ConnectionId>(id), now_));
  }

  void fall_silent(SimulatedAgent& agent) {
    const auto is_refusal = [](const auto& message) { return std::holds_alternative<Refuse>(message); };
    if (!agent.join.leads && agent.joined && std::ranges::none_of(agent.to_agent, is_refusal)) agent.silent = true;
  }

  void fail(SimulatedAgent& agent) {
    if (agent.phase != Phase::running || agent.silent) return;
    agent.phase = rules_.independent ? Phase::done : Phase::ending;
    const std::string failure = fmt::format("{{\"rank\":{}}}", next_failure_++);
    agent.to_coordinator.push_back({Failed{agent.round, 0ms, failure}, now_ - std::chrono::milliseconds(pick(500))});
  }

  void succeed(SimulatedAgent& agent) {
    if (agent.phase != Phase::running) return;
    agent.phase = Phase::done;
    agent.to_coordinator.push_back({Succeeded{agent.round}, std::nullopt});
  }

  void leave(SimulatedAgent& agent) {
    if (agent.leaving || !agent.joined || (agent.join.leads && !one_in(5))) return;
    agent.leaving = true;
    agent.to_coordinator.push_back({Leaving{"SIGTERM"}, std::nullopt});
    if (agent.phase == Phase::running) agent.phase = Phase::ending;
  }

  void finish_ending(SimulatedAgent& agent) {
    if (agent.phase != Phase::ending) return;
    agent.phase = Phase::done;
    agent.to_coordinator.push_back({Stopped{agent.round}, std::nullopt});
  }

  // ---- messages ----

  void deliver_to_coordinator(int id) {
    SimulatedAgent& agent = agents_.at(id);
    if (agent.silent || agent.to_coordinator.empty()) return;
    SimulatedAgent::Letter letter = std::move(agent.to_coordinator.front());
    agent.to_coordinator.pop_front();
    if (auto* failed = std::get_if<Failed>(&letter.message)) {
      failed->age = std::chrono::duration_cast<std::chrono::milliseconds>(now_ - *letter.failed_at);
      note_failure(*failed, *letter.failed_at);
    }
    if (const auto* succeeded = std::get_if<Succeeded>(&letter.message))
      if (succeeded->round == membership_->round()) succeeded_.insert(id);
    if (std::holds_alternative<Join>(letter.message)) agent.joined = true;
    const bool gone = agent.leaving && !agent.has_ranks() && !agent.join.leads && agent.to_coordinator.empty();
    obey(membership_->heard(static_cast<ConnectionId>(id), letter.message, now_));
    if (gone) kill(id);
  }

  void deliver_to_agent(int id) {
    SimulatedAgent& agent = agents_.at(id);
    if (agent.silent || agent.to_agent.empty()) return;
    const CoordinatorMessage message = std::move(agent.to_agent.front());
    agent.to_agent.pop_front();
    if (const auto* start = std::get_if<Start>(&message)) {
      EXPECT_FALSE(agent.has_ranks()) << "two rounds at once on " << agent.join.host;
      agent.round = start->round;
      agent.phase = agent.leaving ? Phase::ending : Phase::running;
    } else if (const auto* stop = std::get_if<Stop>(&message)) {
      if (agent.phase == Phase::running) agent.phase = Phase::ending;
      // Its ranks were gone already, one way or the other: it says so all the same.
      if (agent.phase == Phase::done) agent.to_coordinator.push_back({Stopped{stop->round}, std::nullopt});
    } else if (std::holds_alternative<Finish>(message)) {
      EXPECT_FALSE(agent.has_ranks());
      agents_.erase(id);
      obey(membership_->lost(static_cast<ConnectionId>(id), now_));
    } else if (std::holds_alternative<Refuse>(message)) {
      agents_.erase(id);
      obey(membership_->lost(static_cast<ConnectionId>(id), now_));
    }
  }

  void deliver_everything() {
    for (int rounds = 0; rounds < 3; ++rounds) {
      std::vector<int> ids;
      for (const auto& [id, agent] : agents_) ids.push_back(id);
      for (const int id : ids) {
        while (agents_.contains(id) && !agents_.at(id).silent && !agents_.at(id).to_coordinator.empty())
          deliver_to_coordinator(id);
        while (agents_.contains(id) && !agents_.at(id).silent && !agents_.at(id).to_agent.empty()) deliver_to_agent(id);
      }
    }
  }

  void pass(std::chrono::milliseconds span) {
    const Clock::time_point end = now_ + span;
    while (true) {
      now_ = std::max(now_, std::min(membership_->next_deadline().value_or(end), end));
      for (const auto& [id, agent] : agents_)
        if (agent.joined && !agent.silent) obey(membership_->heard(static_cast<ConnectionId>(id), Alive{}, now_));
      obey(membership_->passed(now_));
      if (now_ >= end) break;
    }
  }

  // ---- what must hold ----

  void obey(const std::vector<Order>& orders) {
    std::map<int, Start> starts;
    for (const Order& order : orders) {
      const int id = static_cast<int>(order.to);
      if (const auto* start = std::get_if<Start>(&order.message)) starts[id] = *start;
      if (const auto* finish = std::get_if<Finish>(&order.message)) check_outcome(*finish);
      const auto found = agents_.find(id);
      if (found == agents_.end()) continue;
      // Lost by its silence: as an agent that hears nothing of the coordinator would, it ends its ranks and itself.
      if (found->second.silent && std::holds_alternative<Refuse>(order.message))
        agents_.erase(found);
      else if (!std::holds_alternative<Alive>(order.message))
        found->second.to_agent.push_back(order.message);
    }
    if (!starts.empty()) check_round(starts);
    for (auto at = agents_.begin(); at != agents_.end();)
      at = at->second.silent && membership_->state() == RunState::finished ? agents_.erase(at) : std::next(at);
  }

  void note_failure(const Failed& failed, Clock::time_point time) {
    if (failed.round != membership_->round()) return;
    if (!earliest_failure_ || time < earliest_failure_->first) earliest_failure_ = {time, failed.failure};
  }

  void check_round(const std::map<int, Start>& starts) {
    const Start& any = starts.begin()->second;
    EXPECT_EQ(any.round, last_round_ + 1);
    EXPECT_GE(any.restart_count, restart_count_);
    EXPECT_LE(any.restart_count, std::min(restart_count_ + 1, rules_.maximum_restarts));
    EXPECT_GE(static_cast<int>(starts.size()), rules_.minimum_hosts);
    EXPECT_LE(static_cast<int>(starts.size()), rules_.maximum_hosts);
    last_round_ = any.round;
    restart_count_ = any.restart_count;
    earliest_failure_.reset();
    succeeded_.clear();
    part_.clear();
    for (const auto& [id, agent] : agents_)
      EXPECT_TRUE(agent.silent || !agent.has_ranks()) << agent.join.host << " still has ranks of round " << agent.round;
    check_ranks(starts);
  }

  void check_ranks(const std::map<int, Start>& starts) {
    std::vector<std::pair<Start, Join>> order;
    for (const auto& [id, start] : starts) {
      ASSERT_TRUE(agents_.contains(id));
      order.emplace_back(start, agents_.at(id).join);
      part_.insert(id);
    }
    std::ranges::sort(order, {}, [](const auto& entry) { return entry.first.group_rank; });
    Start expected;
    std::map<std::string, int> role_sizes;
    for (const auto& [start, join] : order) {
      EXPECT_EQ(start.round, last_round_);
      EXPECT_EQ(start.restart_count, restart_count_);
      EXPECT_EQ(start.group_rank, expected.group_rank++);
      EXPECT_EQ(start.group_world_size, static_cast<int>(order.size()));
      EXPECT_EQ(start.first_rank, expected.first_rank);
      EXPECT_EQ(start.first_role_rank, role_sizes[join.role]);
      expected.first_rank += join.local_world_size;
      role_sizes[join.role] += join.local_world_size;
      if (static_cast<int>(order.size()) == rules_.maximum_hosts && join.node_rank) {
        EXPECT_EQ(start.group_rank, *join.node_rank);
      }
      if (join.leads) {
        EXPECT_EQ(start.group_rank, 0);
      }
    }
    for (const auto& [start, join] : order) {
      EXPECT_EQ(start.world_size, expected.first_rank);
      EXPECT_EQ(start.role_world_size, role_sizes[join.role]);
    }
  }

  void check_outcome(const Finish& finish) {
    if (outcome_) {
      EXPECT_EQ(finish.reason, outcome_->reason);
      EXPECT_EQ(finish.success, outcome_->success);
      return;
    }
    outcome_ = finish;
    if (finish.success) {
      EXPECT_EQ(finish.failure, std::nullopt);
      EXPECT_EQ(succeeded_, part_);
    } else {
      EXPECT_EQ(finish.failure.value_or("none"), earliest_failure_ ? earliest_failure_->second : "none");
    }
  }

  bool everyone_is_told() const { return membership_->state() == RunState::finished && agents_.empty(); }

  std::mt19937 chance_;
  MembershipRules rules_;
  bool has_node_ranks_ = false;
  bool has_leader_ = false;
  Clock::time_point now_ = Clock::time_point(1000h);
  std::unique_ptr<Membership> membership_;
  std::map<int, SimulatedAgent> agents_;
  int next_id_ = 0;
  int next_failure_ = 0;

  int last_round_ = -1;
  int restart_count_ = 0;
  std::set<int> part_;       // of the current round
  std::set<int> succeeded_;  // in the current round
  std::optional<std::pair<Clock::time_point, std::string>> earliest_failure_;
  std::optional<Finish> outcome_;
};

TEST(MembershipModel, HoldsItsPromisesInThousandsOfRandomHistories) {
  int succeeded = 0;
  int rounds = 0;
  int restarts = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    World world(seed);
    world.live_through_a_history();
    world.come_to_an_end();
    if (HasFailure()) return;
    succeeded += world.succeeded() ? 1 : 0;
    rounds += world.rounds();
    restarts += world.restarts();
  }
  // The histories are worth looking at: many rounds, many restarts, and both ends.
  EXPECT_GT(succeeded, 250);
  EXPECT_LT(succeeded, 1750);
  EXPECT_GT(rounds, 2000);
  EXPECT_GT(restarts, 250);
}

}  // namespace
}  // namespace muster::rendezvous
