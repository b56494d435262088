#include "schedule/scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/duration.hpp"

namespace muster::schedule {
namespace {

Error refusal(std::string what, std::string remedy = "") {
  return {Error::Kind::refused, std::move(what), std::move(remedy)};
}

std::string describe(const Ended& ended) {
  switch (ended.how) {
    case Ended::How::exited:
      return fmt::format("exit status {}", ended.code);
    case Ended::How::killed:
      return fmt::format("killed by signal {}", ended.code);
    case Ended::How::out_of_memory:
      return "out of memory";
  }
  return "";
}

}  // namespace

Result<std::vector<Decision>> Scheduler::apply(const Event& event) {
  const Time before = now_;
  now_ = std::max(now_, event.time);
  decisions_.clear();
  grown_.clear();
  if (const Taken taken = std::visit([&](const auto& what) { return take(what); }, event.what); !taken) {
    now_ = before;
    return taken.error();
  }
  // A snapshot leads to nothing that did not follow before. A sign of life stops no job: others may give one at
  // the same moment.
  if (!std::holds_alternative<Snapshot>(event.what)) {
    pauses_.drop_until(now_);
    if (!std::holds_alternative<Heartbeat>(event.what)) stop_overdue();
    assign();
  }
  return std::exchange(decisions_, {});
}

std::optional<Time> Scheduler::next_deadline() const {
  std::optional<Time> next;
  if (const auto running = running_.next_deadline()) next = running->first;
  if (line_.size() == 0 && picky_.empty()) return next;
  for (const std::optional<StartPause>* pause : {&pauses_.machine, &pauses_.gpus})
    if (*pause) next = next ? std::min(*next, (*pause)->until) : (*pause)->until;
  return next;
}

// ---- events ----

Scheduler::Taken Scheduler::take(const Rules& rules) {
  if (jobs_.size() > 0) return refusal("the rules of a scheduler cannot change once it has jobs");
  if (rules.ageing <= Duration::zero() || rules.ageing > longest_span || rules.without_gpus < 1)
    return Error{Error::Kind::bad_input,
                 fmt::format("ageing is {} ms, and {} jobs without GPUs may run at once", rules.ageing.count(),
                             rules.without_gpus),
                 "both must be above 0"};
  rules_ = rules;
  return {};
}

Scheduler::Taken Scheduler::take(const GpuFound& found) {
  pool_.add(found.name, now_);
  return {};
}

Scheduler::Taken Scheduler::take(const GpuLost& lost) {
  if (const Taken known = check(lost.gpu); !known) return known;
  const std::optional<JobIndex> job = pool_.at(lost.gpu).job;
  pool_.set_aside(lost.gpu, GpuState::lost, lost.reason, now_);
  if (job && jobs_.at(*job).state == JobState::running) {
    jobs_.at(*job).reason = fmt::format("GPU {} was lost: {}", pool_.at(lost.gpu).name, lost.reason);
    stop(*job, StopReason::gpu_lost);
  }
  return {};
}

Scheduler::Taken Scheduler::take(const GpuHeld& held) {
  if (const Taken known = check(held.gpu); !known) return known;
  const std::optional<JobIndex> job = pool_.at(held.gpu).job;
  pool_.set_aside(held.gpu, GpuState::held, held.holder, now_);
  if (!job) return {};
  JobRecord& record = jobs_.at(*job);
  const bool cancelled = record.stop == StopReason::cancelled;
  leave_gpus(*job);
  --record.attempts;
  if (cancelled)
    settle(*job, Outcome::cancelled, "cancelled before it began");
  else
    join_line(*job);
  return {};
}

Scheduler::Taken Scheduler::take(const GpuReturned& returned) {
  if (const Taken known = check(returned.gpu); !known) return known;
  if (!pool_.is_usable(returned.gpu)) pool_.put_back(returned.gpu, now_);
  return {};
}

Scheduler::Taken Scheduler::take(const GpusLinked& linked) {
  for (const GpuLink& link : linked.links)
    for (const GpuNumber gpu : {link.a, link.b})
      if (const Taken known = check(gpu); !known) return known;
  links_ = linked.links;
  return {};
}

Scheduler::Taken Scheduler::take(const Submitted& submitted) {
  const auto added = jobs_.add(submitted.jobs, pool_.size(), rules_.ageing, now_);
  if (!added) return added.error();
  for (const JobIndex job : *added) {
    JobRecord& record = jobs_.at(job);
    if (record.state != JobState::waiting) continue;  // skipped with one before it
    const auto hopeless = std::ranges::find_if(record.dependencies, [&](const Dependency& dependency) {
      const JobState state = jobs_.at(dependency.job).state;
      return dependency.needs_success && is_settled(state) && state != JobState::succeeded;
    });
    if (hopeless != record.dependencies.end()) {
      record.because = hopeless->job;
      settle(job, Outcome::skipped, fmt::format("{} did not succeed", jobs_.at(hopeless->job).job.id.text));
    } else if (record.unmet == 0) {
      jobs_.became_ready(job);
      join_line(job);
    }
  }
  return {};
}

Scheduler::Taken Scheduler::take(const Cancelled& cancelled) {
  const auto job = find(cancelled.job);
  if (!job) return job.error();
  JobRecord& record = jobs_.at(*job);
  if (is_settled(record.state))
    return refusal(fmt::format("job {} has already {}", cancelled.job.text,
                               record.state == JobState::succeeded || record.state == JobState::failed
                                   ? name(record.state)
                                   : fmt::format("been {}", name(record.state))));
  if (has_gpus(record.state)) {
    stop(*job, StopReason::cancelled);
    return {};
  }
  if (record.state == JobState::ready) leave_line(*job);
  settle(*job, Outcome::cancelled, "cancelled");
  return {};
}

Scheduler::Taken Scheduler::take(const StartFailed& failed) {
  const auto job = find_running(failed.job);
  if (!job) return job.error();
  const bool cancelled = jobs_.at(*job).stop == StopReason::cancelled;
  leave_gpus(*job);
  if (cancelled)
    settle(*job, Outcome::cancelled, "cancelled before it began");
  else
    fail_attempt(*job, fmt::format("it could not be started: {}", failed.reason));
  return {};
}

Scheduler::Taken Scheduler::take(const Postponed& postponed) {
  const auto job = find_running(postponed.job);
  if (!job) return job.error();
  JobRecord& record = jobs_.at(*job);
  const bool cancelled = record.stop == StopReason::cancelled;
  leave_gpus(*job);
  --record.attempts;
  record.postponed = std::clamp(record.postponed, 0, most_postponed) + 1;
  if (cancelled)
    settle(*job, Outcome::cancelled, "cancelled before it began");
  else
    join_line(*job);
  std::optional<StartPause>& pause = pauses_.of(postponed.shortage);
  const Time until = now_ + pause_after(record.postponed);
  if (!pause || pause->until < until) pause = {until, postponed.reason};
  return {};
}

Scheduler::Taken Scheduler::take(const Heartbeat& heartbeat) {
  const auto job = find_running(heartbeat.job);
  if (!job) return job.error();
  JobRecord& record = jobs_.at(*job);
  record.last_sign = std::clamp(heartbeat.at.value_or(now_), *record.last_sign, now_);
  if (record.state == JobState::running) running_.set_deadline(*job, deadline(record));
  return {};
}

Scheduler::Taken Scheduler::take(const Ended& ended) {
  const auto job = find_running(ended.job);
  if (!job) return job.error();
  JobRecord& record = jobs_.at(*job);
  const std::optional<StopReason> stopped = record.stop;
  record.last_end = {ended.how, ended.code};
  record.postponed = 0;
  leave_gpus(*job);
  if (stopped == StopReason::cancelled) {
    settle(*job, Outcome::cancelled, "cancelled");
  } else if (ended.succeeded()) {
    learn(record);
    settle(*job, Outcome::succeeded, "");
  } else if (stopped == StopReason::timeout) {
    settle(*job, Outcome::failed,
           fmt::format("it ran for longer than {}, its timeout", to_string(*record.job.timeout)));
  } else if (stopped == StopReason::gpu_lost) {
    decisions_.push_back(Retry{record.job.id, record.reason, record.job.retries - record.failures});
    join_line(*job);
  } else if (stopped == StopReason::heartbeat) {
    fail_attempt(*job, fmt::format("nothing was heard of it for {}", to_string(*record.job.heartbeat)));
  } else {
    fail_attempt(*job, describe(ended));
  }
  return {};
}

Result<JobIndex> Scheduler::find(const JobId& id) const {
  if (const auto job = jobs_.find(id)) return *job;
  return Error{Error::Kind::bad_input, fmt::format("there is no job {}", id.text), ""};
}

Result<JobIndex> Scheduler::find_running(const JobId& id) const {
  const auto job = find(id);
  if (!job || has_gpus(jobs_.at(*job).state)) return job;
  return refusal(fmt::format("job {} does not run: it is {}", id.text, name(jobs_.at(*job).state)));
}

Scheduler::Taken Scheduler::check(GpuNumber gpu) const {
  if (pool_.knows(gpu)) return {};
  return Error{Error::Kind::bad_input, fmt::format("there is no GPU number {} among {}", number(gpu), pool_.size()),
               ""};
}

// ---- from state to state ----

void Scheduler::join_line(JobIndex job) {
  JobRecord& record = jobs_.at(job);
  record.state = JobState::ready;
  const auto length = expected_length(record.job, record.job.gpus.minimum);
  record.lane = length ? step_above(*length) : LengthStep::unknown;
  stand_in_line(job);
}

void Scheduler::stand_in_line(JobIndex job) {
  const JobRecord& record = jobs_.at(job);
  if (record.avoided.empty())
    line_.add(record.rank, record.job.gpus.minimum, record.lane);
  else
    picky_.insert(record.rank);
  if (record.job.prediction) return;
  for (const std::string* name : {&record.job.label, &record.job.kind})
    if (!name->empty()) guessed_[*name].insert(job);
}

void Scheduler::leave_line(JobIndex job) {
  const JobRecord& record = jobs_.at(job);
  if (record.avoided.empty())
    line_.remove(record.rank, record.job.gpus.minimum, record.lane);
  else
    picky_.erase(record.rank);
  if (reserved_ == job) reserved_.reset();
  if (record.job.prediction) return;
  for (const std::string* name : {&record.job.label, &record.job.kind})
    if (const auto known = guessed_.find(*name); known != guessed_.end()) {
      known->second.erase(job);
      if (known->second.empty()) guessed_.erase(known);
    }
}

void Scheduler::leave_gpus(JobIndex job) {
  JobRecord& record = jobs_.at(job);
  pool_.give_back(record.gpus, now_);
  running_.remove(job);
  if (record.gpus.empty()) --running_without_gpus_;
  record.stop.reset();
  record.expected_end.reset();
}

void Scheduler::stop(JobIndex job, StopReason reason) {
  JobRecord& record = jobs_.at(job);
  if (record.state == JobState::running) decisions_.push_back(Stop{record.job.id, reason});
  record.state = JobState::stopping;
  record.stop = reason;
  record.expected_end = now_;
  running_.set_deadline(job, std::nullopt);
  running_.expect(job, now_);
}

void Scheduler::fail_attempt(JobIndex job, std::string reason) {
  JobRecord& record = jobs_.at(job);
  if (++record.failures > record.job.retries) {
    settle(job, Outcome::failed, std::move(reason));
    return;
  }
  for (const GpuNumber gpu : record.gpus)
    if (std::ranges::find(record.avoided, gpu) == record.avoided.end()) record.avoided.push_back(gpu);
  record.reason = reason;
  decisions_.push_back(Retry{record.job.id, std::move(reason), record.job.retries - record.failures});
  join_line(job);
}

// Settles the job and, through all jobs that wait for it, everything that can no longer succeed.
void Scheduler::settle(JobIndex job, Outcome outcome, std::string reason) {
  settle_one(job, outcome, std::move(reason), jobs_.at(job).because);
  std::deque<JobIndex> settled{job};
  for (; !settled.empty(); settled.pop_front()) {
    const JobRecord& done = jobs_.at(settled.front());
    for (const Dependency& edge : done.dependants) {
      JobRecord& dependant = jobs_.at(edge.job);
      --dependant.unmet;
      if (dependant.state != JobState::waiting) continue;
      if (edge.needs_success && done.state != JobState::succeeded) {
        settle_one(edge.job, Outcome::skipped, fmt::format("{} did not succeed", done.job.id.text), settled.front());
        settled.push_back(edge.job);
      } else if (dependant.unmet == 0) {
        jobs_.became_ready(edge.job);
        join_line(edge.job);
      }
    }
  }
}

void Scheduler::settle_one(JobIndex job, Outcome outcome, std::string reason, std::optional<JobIndex> because) {
  JobRecord& record = jobs_.at(job);
  const bool was_live = record.state != JobState::waiting;
  switch (outcome) {
    case Outcome::succeeded:
      record.state = JobState::succeeded;
      break;
    case Outcome::failed:
      record.state = JobState::failed;
      break;
    case Outcome::skipped:
      record.state = JobState::skipped;
      break;
    case Outcome::cancelled:
      record.state = JobState::cancelled;
      break;
  }
  record.ended = now_;
  record.reason = reason;
  record.because = because;
  jobs_.was_settled(job, was_live);
  Settle order{record.job.id, outcome, std::move(reason), {}};
  if (because) order.because = jobs_.at(*because).job.id;
  decisions_.push_back(std::move(order));
}

void Scheduler::stop_overdue() {
  for (auto next = running_.next_deadline(); next && next->first <= now_; next = running_.next_deadline()) {
    const JobRecord& record = jobs_.at(next->second);
    const bool too_long = record.job.timeout && *record.started + *record.job.timeout <= now_;
    stop(next->second, too_long ? StopReason::timeout : StopReason::heartbeat);
  }
}

std::optional<Time> Scheduler::deadline(const JobRecord& record) const {
  std::optional<Time> first;
  if (record.job.timeout) first = *record.started + *record.job.timeout;
  if (record.job.heartbeat) {
    const Time silence = *record.last_sign + *record.job.heartbeat;
    first = first ? std::min(*first, silence) : silence;
  }
  return first;
}

// ---- how long jobs take ----

std::optional<Duration> Scheduler::expected_length(const Job& job, int gpus) const {
  std::optional<Duration> length = job.prediction;
  if (!length) length = learned_.expected(job.label);
  if (!length) length = learned_.expected(job.kind);
  if (length && gpus > job.gpus.minimum) length = *length * job.gpus.minimum / gpus;
  if (job.timeout) length = length ? std::min(*length, *job.timeout) : *job.timeout;
  return length;
}

void Scheduler::learn(const JobRecord& record) {
  Duration length = now_ - *record.started;
  if (record.job.gpus.minimum > 0)
    length = length * static_cast<std::int64_t>(record.gpus.size()) / record.job.gpus.minimum;
  for (const std::string* name : {&record.job.label, &record.job.kind})
    if (learned_.learn(*name, length)) change_lanes(*name);
}

void Scheduler::change_lanes(const std::string& name) {
  if (const auto ready = guessed_.find(name); ready != guessed_.end())
    for (const JobIndex job : ready->second) {
      JobRecord& record = jobs_.at(job);
      const auto length = expected_length(record.job, record.job.gpus.minimum);
      const LengthStep lane = length ? step_above(*length) : LengthStep::unknown;
      if (record.avoided.empty() && lane != record.lane) {
        line_.remove(record.rank, record.job.gpus.minimum, record.lane);
        line_.add(record.rank, record.job.gpus.minimum, lane);
      }
      record.lane = lane;
    }
  const std::vector<JobIndex> unknown(running_.unexpected().begin(), running_.unexpected().end());
  for (const JobIndex job : unknown) expect_end(jobs_.at(job));
}

void Scheduler::expect_end(JobRecord& record) {
  const auto length = expected_length(record.job, static_cast<int>(record.gpus.size()));
  record.expected_end.reset();
  if (length) record.expected_end = *record.started + *length;
  running_.expect(record.rank.order, record.expected_end);
}

}  // namespace muster::schedule
