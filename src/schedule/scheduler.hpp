// Which job runs when, and on which GPUs: a state machine without processes, files or clock. Events go in, decisions
// come out, and the same events give the same decisions. docs/schedule.md has the rules in plain words.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.hpp"
#include "schedule/decision.hpp"
#include "schedule/event.hpp"
#include "schedule/gpu_pool.hpp"
#include "schedule/job_table.hpp"
#include "schedule/duration_estimates.hpp"
#include "schedule/reservation.hpp"
#include "schedule/running_jobs.hpp"
#include "schedule/snapshot.hpp"
#include "schedule/start_pause.hpp"
#include "schedule/waiting_line.hpp"

namespace muster::schedule {

class Scheduler {
 public:
  explicit Scheduler(ChooseGpus choose = {}) : choose_(std::move(choose)) {}

  // Takes an event and returns what has to be done now. An impossible event (an unknown job, an end of what does not
  // run, jobs that cannot be accepted) changes nothing and belongs in no journal.
  Result<std::vector<Decision>> apply(const Event& event);

  // The state to continue from, without the jobs to forget: some of those that can_forget() returned.
  Snapshot snapshot(const std::unordered_set<JobIndex>& forgotten = {}) const;
  // Those of them that may be forgotten: settled jobs that no job waits for, and of a chain all jobs or none.
  std::unordered_set<JobIndex> can_forget(std::unordered_set<JobIndex> jobs) const;

  // When the mere passing of time has consequences: give a Tick then, if nothing else happened before.
  std::optional<Time> next_deadline() const;

  Time now() const { return now_; }
  const Rules& rules() const { return rules_; }
  const JobTable& jobs() const { return jobs_; }
  const GpuPool& gpus() const { return pool_; }
  const RunningJobs& running() const { return running_; }
  const std::vector<GpuLink>& links() const { return links_; }
  const StartPauses& pauses() const { return pauses_; }
  bool is_idle() const { return running_.size() == 0 && line_.size() == 0 && picky_.empty(); }

  // The job that GPUs are kept free for, if there is one.
  std::optional<Reservation> reservation() const;
  // Ready jobs that go before this one, in order; at most this many.
  std::vector<JobIndex> before(JobIndex job, std::size_t most) const;
  std::size_t count_before(JobIndex job) const;
  // How long one attempt on these GPUs takes, as given or as learned from others; absent when unknown.
  std::optional<Duration> expected_length(const Job& job, int gpus) const;

 private:
  using Taken = Result<void>;
  Taken take(const Rules& rules);
  Taken take(const GpuFound& found);
  Taken take(const GpuLost& lost);
  Taken take(const GpuHeld& held);
  Taken take(const GpuReturned& returned);
  Taken take(const Submitted& submitted);
  Taken take(const Cancelled& cancelled);
  Taken take(const StartFailed& failed);
  Taken take(const Postponed& postponed);
  Taken take(const Heartbeat& heartbeat);
  Taken take(const Ended& ended);
  Taken take(const GpusLinked& linked);
  Taken take(const Tick&) { return {}; }
  Taken take(const Snapshot& snapshot);
  Taken check(const Snapshot& snapshot) const;
  void restore(JobIndex job);
  Result<JobIndex> find(const JobId& id) const;
  Result<JobIndex> find_running(const JobId& id) const;
  Taken check(GpuNumber gpu) const;

  // From state to state.
  void join_line(JobIndex job);
  void stand_in_line(JobIndex job);
  void leave_line(JobIndex job);
  void leave_gpus(JobIndex job);
  void stop(JobIndex job, StopReason reason);
  void fail_attempt(JobIndex job, std::string reason);
  void settle(JobIndex job, Outcome outcome, std::string reason);
  void settle_one(JobIndex job, Outcome outcome, std::string reason, std::optional<JobIndex> because);
  void stop_overdue();
  std::optional<Time> deadline(const JobRecord& record) const;
  void learn(const JobRecord& record);
  void change_lanes(const std::string& name);

  // Giving out GPUs.
  struct Grown {
    JobIndex job{};
    std::size_t decision = 0;  // its place in decisions_
  };
  void assign();
  std::optional<JobIndex> head() const;
  bool fits(JobIndex job) const;
  void let_others_pass();
  std::optional<Rank> first_to_pass(const Reservation& reservation) const;
  bool may_pass(const JobRecord& record, const Reservation& reservation) const;
  void start(JobIndex job, std::span<const GpuNumber> preferred);
  void share_the_rest();
  void grow(const Grown& grown, int gpus);
  std::span<const GpuNumber> banned(const JobRecord& record) const;
  std::vector<GpuNumber> pick(const JobRecord& record, int count, std::span<const GpuNumber> preferred) const;
  void expect_end(JobRecord& record);

  ChooseGpus choose_;
  Rules rules_;
  Time now_;
  JobTable jobs_;
  GpuPool pool_;
  std::vector<GpuLink> links_;
  WaitingLine line_;
  std::set<Rank> picky_;  // ready, but not for every GPU: they failed on some
  RunningJobs running_;
  int running_without_gpus_ = 0;
  std::optional<JobIndex> reserved_;
  DurationEstimates learned_;
  StartPauses pauses_;
  std::unordered_map<std::string, std::unordered_set<JobIndex>> guessed_;  // ready jobs by the names they learn from
  std::vector<Decision> decisions_;                                        // of the event at hand
  std::vector<Grown> grown_;                                               // elastic jobs started by it
};

}  // namespace muster::schedule
