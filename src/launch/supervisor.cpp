#include "launch/supervisor.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <iterator>

#include "launch/keeper/signal_name.hpp"

namespace muster::launch {
namespace {

using rendezvous::Finish;
using rendezvous::Refuse;
using rendezvous::Start;
using rendezvous::Stop;
using std::chrono::milliseconds;

// What a leading launcher that was interrupted waits for the other hosts beyond the grace they have themselves.
constexpr milliseconds farewell(5000);
// How much of a job's time is kept for everything after the ranks' end.
constexpr milliseconds margin_at_job_end(5000);

void append(std::vector<Action>& actions, std::vector<Action> more) {
  std::ranges::move(more, std::back_inserter(actions));
}

// A signal sent ahead of a job's end (USR1, USR2) leaves the ranks the time until then; any other signal no more than
// that.
milliseconds grace_for(int signal, const SupervisionRules& rules, std::chrono::system_clock::time_point now) {
  if (!rules.job_end || *rules.job_end <= now) return rules.grace;
  const auto left = std::chrono::duration_cast<milliseconds>(*rules.job_end - now);
  const milliseconds usable = std::max(left - margin_at_job_end, milliseconds(0));
  return signal == SIGUSR1 || signal == SIGUSR2 ? usable : std::min(usable, rules.grace);
}

}  // namespace

std::optional<std::size_t> Supervisor::first_failure() const {
  // The first rank that ended by itself; where all were asked to end, any will do.
  for (const bool asked : {false, true})
    for (std::size_t position = 0; position < exits_.size(); ++position)
      if (exits_[position].failed() && exits_[position].asked == asked) return position;
  return std::nullopt;
}

std::vector<Action> Supervisor::begin(const Start& round) {
  round_ = round;
  exits_.clear();
  if (round.round > 0) {
    state_ = State::preparing;
    return {AwaitGpus{}};
  }
  state_ = State::running;
  return {StartRanks{round}};
}

std::vector<Action> Supervisor::gpus_ready(SteadyTime) {
  if (state_ != State::preparing) return {};
  state_ = State::running;
  return {StartRanks{*round_}};
}

// Ends the round, whatever state it is in; what follows is decided by the latest reason.
std::vector<Action> Supervisor::stop(After after, int signal, milliseconds grace, SteadyTime now) {
  after_ = after;
  switch (state_) {
    case State::waiting:
    case State::preparing: {
      state_ = State::waiting;
      return cleared(0, now);
    }
    case State::running: {
      state_ = State::ending;
      deadline_ = now + grace;
      return {SignalRanks{signal}};
    }
    case State::ending: {
      deadline_ = std::min(*deadline_, now + grace);
      return {};
    }
    case State::clearing:
    case State::over:
      return {};
  }
  return {};
}

std::vector<Action> Supervisor::clear(milliseconds grace) {
  state_ = State::clearing;
  deadline_.reset();
  return {EndTheRest{grace}};
}

std::vector<Action> Supervisor::ended(const RankExit& exit, SteadyTime now) {
  exits_.push_back(exit);
  const bool all = exits_.size() == static_cast<std::size_t>(rules_.local_ranks);
  std::vector<Action> actions;
  if (state_ == State::running && exit.failed() && !rules_.independent) {
    actions.push_back(TellFailure{round_->round, exits_.size() - 1});
    append(actions, stop(After::tell_stopped, SIGTERM, rules_.grace_after_failure.value_or(rules_.grace), now));
  } else if (state_ == State::running && exit.failed() && !all) {
    actions.push_back(Note{fmt::format("rank {} failed ({}); the others continue", round_->first_rank + exit.local_rank,
                                       exit.not_started.value_or(muster::describe(exit.end, milliseconds(0))))});
  }
  // Whoever is still asked to end has lost a peer, and with it what the long grace was for.
  if (state_ == State::ending && exit.failed() && rules_.grace_after_failure && !rules_.independent)
    deadline_ = std::min(*deadline_, now + *rules_.grace_after_failure);
  if (!all) return actions;
  if (state_ == State::running) {
    after_ = first_failure() ? After::tell_failure : After::tell_success;
    append(actions, clear(rules_.leftover_grace));
  } else if (state_ == State::ending) {
    append(actions, clear(milliseconds(0)));
  }
  return actions;
}

std::vector<Action> Supervisor::cleared(int killed, SteadyTime now) {
  if (state_ == State::over) return {};
  state_ = State::waiting;
  deadline_.reset();
  std::vector<Action> actions;
  if (killed > 0 && (after_ == After::tell_success || after_ == After::tell_failure))
    actions.push_back(Note{fmt::format("the ranks left {} process{} behind; {} ended", killed, killed == 1 ? "" : "es",
                                       killed == 1 ? "it was" : "they were")});
  const int round = round_ ? round_->round : -1;
  switch (after_) {
    case After::tell_success:
      actions.push_back(Tell{rendezvous::Succeeded{round}});
      break;
    case After::tell_failure:
      actions.push_back(TellFailure{round, *first_failure()});
      break;
    case After::tell_stopped:
      actions.push_back(Tell{rendezvous::Stopped{round}});
      if (leave_) append(actions, leave());
      break;
    case After::look_again:
      actions.push_back(Reconnect{});
      break;
    case After::leave: {
      actions.push_back(Tell{rendezvous::Stopped{round}});
      // The others hear from a leader how it ended; the coordinator says Finish when they have stopped.
      if (leave_->verdict == Verdict::interrupted && rules_.leads && rules_.several_hosts)
        deadline_ = now + rules_.grace + farewell;
      else
        append(actions, leave());
      break;
    }
  }
  return actions;
}

std::vector<Action> Supervisor::leave() {
  state_ = State::over;
  deadline_.reset();
  return {*leave_};
}

std::vector<Action> Supervisor::finish(const Finish& message, SteadyTime now) {
  if (!leave_) {
    const Verdict failed = message.failure ? Verdict::failed : Verdict::broken;
    leave_ =
        Leave{message.success ? Verdict::succeeded : failed, message.success ? "" : message.reason, 0, message.failure};
  }
  if (has_ranks()) return stop(After::tell_stopped, SIGTERM, rules_.grace, now);
  return leave();
}

std::vector<Action> Supervisor::heard(const rendezvous::CoordinatorMessage& message, SteadyTime now) {
  if (state_ == State::over) return {};
  if (const auto* start = std::get_if<Start>(&message)) return leave_ ? std::vector<Action>{} : begin(*start);
  if (const auto* order = std::get_if<Stop>(&message)) {
    if (!round_ || order->round != round_->round || leave_) return {};
    if (state_ == State::waiting) return {};  // stopped by itself, and said so
    std::vector<Action> actions;
    if (state_ == State::running) actions.push_back(Note{fmt::format("ending the round: {}", order->reason)});
    append(actions, stop(After::tell_stopped, SIGTERM, rules_.grace_after_failure.value_or(rules_.grace), now));
    return actions;
  }
  if (const auto* end = std::get_if<Finish>(&message)) return finish(*end, now);
  if (const auto* refusal = std::get_if<Refuse>(&message)) return refused(*refusal, now);
  return {};
}

// A place may become free, and a host that was taken for lost may come back.
std::vector<Action> Supervisor::refused(const Refuse& refusal, SteadyTime now) {
  const bool may_try_again = refusal.retry && (rules_.may_reconnect || !round_);
  if (leave_) return has_ranks() ? std::vector<Action>{} : leave();
  if (!may_try_again) leave_ = Leave{Verdict::broken, refusal.reason, 0, std::nullopt};
  std::vector<Action> actions;
  if (may_try_again && refusal.reason != last_refusal_) actions.push_back(Note{refusal.reason});
  last_refusal_ = refusal.reason;
  append(actions, stop(may_try_again ? After::look_again : After::leave, SIGTERM, rules_.grace, now));
  return actions;
}

std::vector<Action> Supervisor::on_event(const KeeperEvent& event, SteadyTime now) {
  if (const auto* exited = std::get_if<WorkerExited>(&event)) {
    // Ranks are killed when they are cleared away, not before: one that was killed while it was asked to end was dying
    // already, of somebody else's SIGKILL.
    const bool asked = state_ == State::clearing || (state_ == State::ending && exited->end.signal != SIGKILL);
    return ended({exited->local_rank, exited->pid, exited->end, std::nullopt, exited->time, now,
                  exited->signalled && asked},
                 now);
  }
  if (const auto* absent = std::get_if<WorkerNotStarted>(&event))
    return ended({absent->local_rank, 0, {}, absent->reason, std::chrono::system_clock::now(), now, false}, now);
  if (const auto* gone = std::get_if<AllGone>(&event)) return cleared(gone->killed, now);
  if (std::holds_alternative<KeeperLost>(event)) {
    leave_ = Leave{Verdict::failed, "the process that keeps the ranks was killed; they ended with it", 0, std::nullopt};
    return leave();
  }
  return {};
}

std::vector<Action> Supervisor::signalled(int signal, std::chrono::system_clock::time_point wall, SteadyTime now) {
  if (state_ == State::over) return {};
  if (leave_) {  // asked before: no more patience
    if (state_ == State::ending) return clear(milliseconds(0));
    return has_ranks() ? std::vector<Action>{EndTheRest{milliseconds(0)}} : leave();
  }
  const std::string reason = fmt::format("{} received", signal_text(signal));
  leave_ = Leave{Verdict::interrupted, reason, signal, std::nullopt};
  std::vector<Action> actions{Note{fmt::format("{}: ending the ranks", reason)}, Tell{rendezvous::Leaving{reason}}};
  const bool was_ending = state_ == State::ending;
  append(actions, stop(After::leave, signal, grace_for(signal, rules_, wall), now));
  if (was_ending) actions.push_back(SignalRanks{signal});
  return actions;
}

std::vector<Action> Supervisor::link_broken(const std::string& reason, SteadyTime now) {
  if (state_ == State::over) return {};
  if (leave_) return has_ranks() ? std::vector<Action>{} : leave();
  if (!rules_.may_reconnect) leave_ = Leave{Verdict::broken, reason, 0, std::nullopt};
  std::vector<Action> actions{Note{reason}};
  append(actions, stop(rules_.may_reconnect ? After::look_again : After::leave, SIGTERM, rules_.grace, now));
  return actions;
}

std::vector<Action> Supervisor::passed(SteadyTime now) {
  if (!deadline_ || now < *deadline_) return {};
  deadline_.reset();
  if (state_ == State::ending) return clear(milliseconds(0));
  if (leave_) return leave();
  return {};
}

}  // namespace muster::launch
