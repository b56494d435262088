#include "rendezvous/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/duration.hpp"
#include "rendezvous/rank_assignment.hpp"
#include "rendezvous/roster.hpp"

namespace muster::rendezvous {
namespace {

// What follows when the ranks of a round are gone.
enum class AfterStop {
  regroup,  // a host came or went: another round, no restart counted
  restart,  // a rank failed: another round, counted
  end,      // the run is over
};

// Why a round, or an independent host's part of it, failed. The earliest that an agent has reported is the one that
// users hear about; a loss without a report only where there is nothing else.
struct Cause {
  Clock::time_point time;
  std::string what;
  std::optional<std::string> failure;  // JSON, as the agent sent it
};

// "rank 3 on node-2 failed".
std::string failure_in_words(const Join& join, const std::string& failure) {
  const auto object = nlohmann::json::parse(failure, nullptr, false);
  if (!object.is_object() || !object.contains("rank") || !object["rank"].is_number_integer())
    return fmt::format("a rank on {} failed", join.host);
  return fmt::format("rank {} on {} failed", object["rank"].get<std::int64_t>(), join.host);
}

void check(const MembershipRules& rules) {
  if (rules.minimum_hosts < 1 || rules.maximum_hosts < rules.minimum_hosts)
    throw std::invalid_argument(
        fmt::format("a run of {} to {} hosts is not possible", rules.minimum_hosts, rules.maximum_hosts));
  if (rules.alive_interval.count() < 1 || rules.silence <= rules.alive_interval)
    throw std::invalid_argument(fmt::format("hosts that speak every {} ms cannot be lost after {} ms of silence",
                                            rules.alive_interval.count(), rules.silence.count()));
}

class RunMembership final : public Membership {
 public:
  RunMembership(MembershipRules rules, Clock::time_point now)
      : rules_(std::move(rules)),
        roster_(rules_),
        give_up_(now + rules_.join_timeout),
        next_alive_(now + rules_.alive_interval),
        last_look_(now),
        listening_since_(now) {}

  std::vector<Order> heard(ConnectionId from, const AgentMessage& message, Clock::time_point now) override;
  std::vector<Order> lost(ConnectionId from, Clock::time_point now) override;
  std::vector<Order> passed(Clock::time_point now) override;
  std::optional<Clock::time_point> next_deadline() const override;

  RunState state() const override { return state_; }
  int round() const override { return round_; }
  std::string describe() const override { return roster_.describe(); }

 private:
  // One message of a host that is here.
  void take(Host& host, const Join& join, Clock::time_point now);
  void take(Host&, const Alive&, Clock::time_point) {}
  void take(Host& host, const Succeeded& succeeded, Clock::time_point now);
  void take(Host& host, const Failed& failed, Clock::time_point now);
  void take(Host& host, const Stopped& stopped, Clock::time_point now);
  void take(Host& host, const Leaving& leaving, Clock::time_point now);

  void newcomer(ConnectionId from, const Join& join, Clock::time_point now);
  void say_how_it_ended(ConnectionId from, const Join& join);
  void remove(Host& host, const std::string& reason, Clock::time_point now);
  void go_on_without(const Host& host, const std::string& reason, Clock::time_point now);
  void at_rest(Host& host, Standing standing);
  void blame(Cause cause);
  void count_failed_part(Cause cause);

  void stop(AfterStop next, const std::string& reason, Clock::time_point now);
  void end(const std::string& reason, Clock::time_point now);

  // Goes from state to state as far as the facts allow.
  void settle(Clock::time_point now);
  bool settle_gathering(Clock::time_point now);
  bool settle_running(Clock::time_point now);
  bool settle_stopping(Clock::time_point now);
  void settle_finished(Clock::time_point now);
  void gather(Clock::time_point now);
  void start_round();
  void finish(bool success, const std::string& reason, Clock::time_point now);
  std::string reason_of_failure() const;

  void send_heartbeats(Clock::time_point now);
  void lose_the_silent(Clock::time_point now);
  Clock::time_point silent_at(const Host& host) const;
  bool enough() const { return roster_.staying() >= rules_.minimum_hosts; }
  bool busy() const { return roster_.count(Standing::running) + roster_.count(Standing::ending) > 0; }
  // A run of fixed size that nobody wants restarted ends with the first host it loses.
  bool cannot_lose_a_host() const {
    return rules_.maximum_restarts == 0 && rules_.minimum_hosts == rules_.maximum_hosts;
  }
  void say(ConnectionId to, CoordinatorMessage message) { orders_.push_back({to, std::move(message)}); }

  const MembershipRules rules_;
  Roster roster_;
  std::vector<Order> orders_;  // of the fact that is being taken in

  RunState state_ = RunState::gathering;
  int round_ = -1;
  int restart_count_ = 0;
  Clock::time_point give_up_;                  // gathering, and not enough are here
  Clock::time_point last_call_ends_;           // enough are here, and more may come
  std::optional<std::string> last_departure_;  // since the last round began

  // The current round:
  std::optional<Cause> cause_;
  bool someone_succeeded_ = false;
  int failed_parts_ = 0;  // independent: hosts

  AfterStop after_stop_ = AfterStop::regroup;
  std::optional<std::string> end_reason_;  // absent: the cause tells
  Finish outcome_;
  std::set<std::pair<std::string, std::int64_t>> took_part_;  // host and pid of every agent that was let in
  bool leader_told_ = false;
  Clock::time_point tell_leader_by_;

  Clock::time_point next_alive_;
  Clock::time_point last_look_;
  Clock::time_point listening_since_;
};

// ---- facts ----

std::vector<Order> RunMembership::heard(ConnectionId from, const AgentMessage& message, Clock::time_point now) {
  if (Host* host = roster_.find(from)) {
    roster_.set_heard(*host, now);
    std::visit([&](const auto& said) { take(*host, said, now); }, message);
  } else if (const auto* join = std::get_if<Join>(&message)) {
    newcomer(from, *join, now);
  }
  settle(now);
  return std::exchange(orders_, {});
}

std::vector<Order> RunMembership::lost(ConnectionId from, Clock::time_point now) {
  if (Host* host = roster_.find(from))
    remove(*host, fmt::format("{} was lost: its connection ended", name_of(host->join)), now);
  settle(now);
  return std::exchange(orders_, {});
}

std::vector<Order> RunMembership::passed(Clock::time_point now) {
  send_heartbeats(now);
  lose_the_silent(now);
  settle(now);
  return std::exchange(orders_, {});
}

std::optional<Clock::time_point> RunMembership::next_deadline() const {
  std::optional<Clock::time_point> next;
  const auto consider = [&](Clock::time_point deadline) { next = std::min(next.value_or(deadline), deadline); };
  if (state_ == RunState::gathering) consider(enough() ? last_call_ends_ : give_up_);
  if (state_ == RunState::finished && !leader_told_) consider(tell_leader_by_);
  if (const Host* quietest = roster_.quietest()) {
    consider(next_alive_);
    consider(silent_at(*quietest));
  }
  return next;
}

// ---- hosts that come ----

// An agent of this run that comes back hears how it ended. Any other belongs to the next run at this endpoint, and
// should try again when this one is over.
void RunMembership::say_how_it_ended(ConnectionId from, const Join& join) {
  if (took_part_.contains({join.host, join.pid})) return say(from, outcome_);
  say(from, Refuse{"the previous run at this endpoint is about to end", true});
}

void RunMembership::newcomer(ConnectionId from, const Join& join, Clock::time_point now) {
  if (state_ == RunState::finished) return say_how_it_ended(from, join);
  Host* replaced = roster_.replaced_by(join);
  if (auto objection = roster_.objection(join, replaced, now)) return say(from, *std::move(objection));
  if (rules_.independent && round_ >= 0)
    return say(from, Refuse{fmt::format("{} is too late: the run began without it, and its ranks are independent",
                                        name_of(join)),
                            false});
  if (replaced != nullptr) {
    const std::string reason = fmt::format("{} joined again with pid {}: its agent with pid {} counts as lost",
                                           name_of(join), join.pid, replaced->join.pid);
    say(replaced->connection, Refuse{reason, false});
    remove(*replaced, reason, now);
  }
  const bool were_enough = enough();
  roster_.admit(from, join, now);
  took_part_.emplace(join.host, join.pid);
  say(from, Welcome{rules_.alive_interval, rules_.silence});
  if (!were_enough && enough()) last_call_ends_ = now + rules_.last_call;
  // A round of which a part is done is not thrown away for a newcomer: it waits for the next, or for the end.
  if (state_ == RunState::running && !someone_succeeded_)
    stop(AfterStop::regroup, fmt::format("{} joined", name_of(join)), now);
}

void RunMembership::take(Host& host, const Join&, Clock::time_point now) {
  const std::string reason = fmt::format("{} was lost: it joined twice over one connection", name_of(host.join));
  say(host.connection, Refuse{reason, false});
  remove(host, reason, now);
}

// ---- hosts that go ----

void RunMembership::take(Host& host, const Leaving& leaving, Clock::time_point now) {
  if (state_ == RunState::finished || host.leaving) return;
  const std::string reason = fmt::format("{} leaves: {}", name_of(host.join), leaving.reason);
  if (!has_ranks(host) && !host.join.leads) return remove(host, reason, now);
  const Host before = host;
  roster_.set_leaving(host);
  if (host.standing == Standing::running) roster_.set_standing(host, Standing::ending);
  go_on_without(before, reason, now);
}

void RunMembership::remove(Host& host, const std::string& reason, Clock::time_point now) {
  const Host gone = host;
  roster_.remove(host);
  if (!gone.leaving) go_on_without(gone, reason, now);
}

// host: as it was before it went.
void RunMembership::go_on_without(const Host& host, const std::string& reason, Clock::time_point now) {
  if (state_ == RunState::finished) return;
  if (host.join.leads) return end(reason, now);
  last_departure_ = reason;
  if (state_ == RunState::gathering) {
    if (roster_.staying() == rules_.minimum_hosts - 1) give_up_ = now + rules_.join_timeout;
  } else if (state_ == RunState::running && has_ranks(host)) {
    if (rules_.independent) return count_failed_part({now, reason, std::nullopt});
    if (cannot_lose_a_host()) return end(reason, now);
    stop(AfterStop::regroup, reason, now);
  } else if (state_ == RunState::stopping) {
    last_call_ends_ = now + rules_.last_call;
    if (cannot_lose_a_host() && has_ranks(host) && after_stop_ != AfterStop::end) end(reason, now);
  }
}

// Nothing of the host is left in this round.
void RunMembership::at_rest(Host& host, Standing standing) {
  roster_.set_standing(host, standing);
  if (host.leaving && !host.join.leads) roster_.remove(host);
}

// ---- what becomes of a round ----

void RunMembership::take(Host& host, const Succeeded& succeeded, Clock::time_point) {
  if (succeeded.round != round_ || !has_ranks(host)) return;
  someone_succeeded_ = true;
  at_rest(host, Standing::succeeded);
}

void RunMembership::take(Host& host, const Failed& failed, Clock::time_point now) {
  if (failed.round != round_ || !has_ranks(host)) return;
  Cause cause{now - failed.age, failure_in_words(host.join, failed.failure), std::nullopt};
  if (!failed.failure.empty()) cause.failure = failed.failure;
  if (state_ == RunState::running && rules_.independent) {
    // One that leaves was counted when it said so.
    host.leaving ? blame(std::move(cause)) : count_failed_part(std::move(cause));
    return at_rest(host, Standing::ended);
  }
  const std::string reason = cause.what;
  blame(std::move(cause));
  roster_.set_standing(host, Standing::ending);
  if (state_ != RunState::running) return;
  stop(restart_count_ < rules_.maximum_restarts ? AfterStop::restart : AfterStop::end, reason, now);
}

void RunMembership::take(Host& host, const Stopped& stopped, Clock::time_point now) {
  if (stopped.round != round_) return;
  // Nobody asked it to, and it did not say why: its ranks are gone all the same.
  if (host.standing == Standing::running) take(host, Failed{round_, {}, ""}, now);
  if (host.standing == Standing::ending) at_rest(host, Standing::ended);
}

void RunMembership::blame(Cause cause) {
  const auto order = [](const Cause& one) { return std::pair(!one.failure, one.time); };
  if (!cause_ || order(cause) < order(*cause_)) cause_ = std::move(cause);
}

void RunMembership::count_failed_part(Cause cause) {
  ++failed_parts_;
  blame(std::move(cause));
}

void RunMembership::stop(AfterStop next, const std::string& reason, Clock::time_point now) {
  state_ = RunState::stopping;
  after_stop_ = next;
  // After a failure nobody else is expected; after a host came or went, more may follow.
  last_call_ends_ = next == AfterStop::regroup ? now + rules_.last_call : now;
  roster_.for_each([&](Host& host) {
    if (host.standing != Standing::running && host.standing != Standing::succeeded) return;
    if (host.standing == Standing::running) roster_.set_standing(host, Standing::ending);
    say(host.connection, Stop{round_, reason});
  });
}

// The run is over, whatever the round is doing; the first reason counts.
void RunMembership::end(const std::string& reason, Clock::time_point now) {
  if (!end_reason_) end_reason_ = reason;
  if (state_ == RunState::stopping)
    after_stop_ = AfterStop::end;
  else
    stop(AfterStop::end, reason, now);
}

// ---- from state to state ----

void RunMembership::settle(Clock::time_point now) {
  for (bool moved = true; moved;) {
    switch (state_) {
      case RunState::gathering:
        moved = settle_gathering(now);
        break;
      case RunState::running:
        moved = settle_running(now);
        break;
      case RunState::stopping:
        moved = settle_stopping(now);
        break;
      case RunState::finished:
        settle_finished(now);
        moved = false;
        break;
    }
  }
}

bool RunMembership::settle_gathering(Clock::time_point now) {
  if (enough()) {
    if (roster_.size() < rules_.maximum_hosts && now < last_call_ends_) return false;
    start_round();
    return true;
  }
  if (now < give_up_) return false;
  const std::string departure = last_departure_ ? *last_departure_ + "; " : "";
  finish(false, fmt::format("{}not enough hosts after {}: {}", departure, to_string(rules_.join_timeout), describe()),
         now);
  return true;
}

bool RunMembership::settle_running(Clock::time_point now) {
  if (busy()) return false;
  finish(failed_parts_ == 0, failed_parts_ == 0 ? "all ranks ended well" : reason_of_failure(), now);
  return true;
}

bool RunMembership::settle_stopping(Clock::time_point now) {
  if (busy()) return false;
  if (after_stop_ == AfterStop::end) {
    finish(false, end_reason_ ? *end_reason_ : reason_of_failure(), now);
  } else {
    if (after_stop_ == AfterStop::restart) ++restart_count_;
    gather(now);
  }
  return true;
}

// Data that is unread in a socket of the coordinator when it ends would destroy the others' Finish: the agent that
// leads, in whose process the coordinator lives, gets its Finish when the others have closed their connections.
void RunMembership::settle_finished(Clock::time_point now) {
  const Host* leader = roster_.leader();
  if (leader_told_ || leader == nullptr || (roster_.size() > 1 && now < tell_leader_by_)) return;
  leader_told_ = true;
  say(leader->connection, outcome_);
}

void RunMembership::gather(Clock::time_point now) {
  state_ = RunState::gathering;
  give_up_ = now + rules_.join_timeout;
  roster_.for_each([&](Host& host) { roster_.set_standing(host, Standing::waiting); });
}

void RunMembership::start_round() {
  state_ = RunState::running;
  ++round_;
  cause_.reset();
  last_departure_.reset();
  someone_succeeded_ = false;
  const std::vector<Host*> order = roster_.in_order();
  std::vector<const Join*> joins;
  for (const Host* host : order) joins.push_back(&host->join);
  std::vector<Start> starts = assign_ranks(joins);
  orders_.reserve(orders_.size() + order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    starts[i].round = round_;
    starts[i].restart_count = restart_count_;
    order[i]->group_rank = starts[i].group_rank;
    roster_.set_standing(*order[i], Standing::running);
    say(order[i]->connection, starts[i]);
  }
}

void RunMembership::finish(bool success, const std::string& reason, Clock::time_point now) {
  state_ = RunState::finished;
  outcome_ = {success, reason, success || !cause_ ? std::nullopt : cause_->failure};
  tell_leader_by_ = now + rules_.silence;
  leader_told_ = roster_.leader() == nullptr;
  roster_.for_each([&](Host& host) {
    if (!host.join.leads) say(host.connection, outcome_);
  });
}

std::string RunMembership::reason_of_failure() const {
  std::string reason = cause_->what;
  if (failed_parts_ > 1) reason += fmt::format("; ranks of {} hosts failed", failed_parts_);
  if (!rules_.independent && rules_.maximum_restarts > 0)
    reason += fmt::format("; no restart of {} is left", rules_.maximum_restarts);
  // Often the failure is what a rank saw of it.
  if (!rules_.independent && last_departure_) reason += "; " + *last_departure_;
  return reason;
}

// ---- time ----

void RunMembership::send_heartbeats(Clock::time_point now) {
  if (now < next_alive_) return;
  next_alive_ = now + rules_.alive_interval;
  roster_.for_each([&](const Host& host) { say(host.connection, Alive{}); });
}

// Note [Own pauses]: when the coordinator itself was stopped, or its machine slept or was overloaded, everybody seems
// silent, and what they said is still unread. The silence counts from the moment it listens again.
void RunMembership::lose_the_silent(Clock::time_point now) {
  if (now - last_look_ > rules_.alive_interval + rules_.silence / 2) listening_since_ = now;
  last_look_ = now;
  while (Host* quietest = roster_.quietest()) {
    if (now < silent_at(*quietest)) return;
    const std::string reason =
        fmt::format("{} was lost: no sign of life for {}", name_of(quietest->join), to_string(rules_.silence));
    say(quietest->connection, Refuse{reason, true});
    remove(*quietest, reason, now);
  }
}

Clock::time_point RunMembership::silent_at(const Host& host) const {
  return std::max(host.last_heard, listening_since_) + rules_.silence;
}

}  // namespace

std::unique_ptr<Membership> Membership::make(MembershipRules rules, Clock::time_point now) {
  check(rules);
  return std::make_unique<RunMembership>(std::move(rules), now);
}

}  // namespace muster::rendezvous
