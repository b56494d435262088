// Every job that was ever submitted, what it waits for, and which jobs wait for it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "schedule/decision.hpp"
#include "schedule/job.hpp"
#include "schedule/job_index.hpp"
#include "schedule/process_end.hpp"
#include "schedule/waiting_line.hpp"

namespace muster::schedule {

enum class JobState {
  waiting,   // for other jobs
  ready,     // in the line for GPUs
  running,   // was ordered to start
  stopping,  // was ordered to stop, and holds its GPUs until it has ended
  succeeded,
  failed,
  skipped,
  cancelled,
};
std::string_view name(JobState state);
constexpr bool is_settled(JobState state) { return state >= JobState::succeeded; }
constexpr bool has_gpus(JobState state) { return state == JobState::running || state == JobState::stopping; }

struct Dependency {
  JobIndex job{};
  bool needs_success = true;
  bool operator==(const Dependency&) const = default;
};

struct JobRecord {
  Job job;
  JobState state = JobState::waiting;
  Rank rank;
  Time submitted;
  std::vector<Dependency> dependencies;
  std::vector<Dependency> dependants;  // the same edges, seen from the other end
  int unmet = 0;                       // dependencies that have not ended
  std::size_t strand = 0;
  LengthStep lane = LengthStep::unknown;  // ready: its place in the line

  int failures = 0;
  int attempts = 0;
  int postponed = 0;               // consecutive starts that failed because something was lacking
  std::vector<GpuNumber> avoided;  // where it failed
  std::vector<GpuNumber> gpus;     // running or stopping: those it has; settled: those it had
  std::optional<Time> started;     // the last attempt
  std::optional<Time> last_sign;   // of life
  std::optional<Time> expected_end;
  std::optional<StopReason> stop;
  std::optional<Time> ended;  // settled
  std::string reason;         // the last failure; settled: why
  std::optional<JobIndex> because;
  std::optional<ProcessEnd> last_end;  // of the last attempt that began

  bool operator==(const JobRecord&) const = default;
};

class JobTable {
 public:
  // Adds all of them, waiting, or none of them.
  Result<std::vector<JobIndex>> add(std::span<const Job> jobs, int gpus, const Duration& ageing, Time now);

  // As they were: Snapshot::jobs. The table is empty before.
  Result<void> restore(std::span<const JobRecord> jobs, int gpus, const Duration& ageing);

  std::size_t size() const { return records_.size(); }
  std::optional<JobIndex> find(const JobId& id) const;
  const JobRecord& at(JobIndex job) const { return records_[position(job)]; }
  JobRecord& at(JobIndex job) { return records_[position(job)]; }
  const std::vector<JobRecord>& all() const { return records_; }

  // Notifies the table of a change that others depend on.
  void became_ready(JobIndex job);
  void was_settled(JobIndex job, bool was_live);

  // Chains (and jobs without one) that are active and have, now or later, a job that could use more than one GPU.
  int growing_strands() const { return growing_; }

 private:
  struct Chain {
    int round = 0;                    // the last
    std::vector<JobIndex> of_round;   // its jobs
    std::vector<JobIndex> of_before;  // the last jobs of the round before
    int left = 0;                     // jobs not settled
    std::size_t strand = 0;
  };
  struct Strand {
    int live = 0;          // jobs ready, running or stopping
    int elastic_left = 0;  // elastic jobs not settled
    bool grows() const { return live > 0 && elastic_left > 0; }
  };
  void add(const Job& job, const Duration& ageing, Time now);
  std::vector<JobIndex> last_of(const std::vector<JobIndex>& round) const;
  void place_in_chain(JobRecord& record, JobIndex index);
  void change_strand(std::size_t strand, int live, int elastic);

  std::vector<JobRecord> records_;
  std::unordered_map<std::string, JobIndex> by_id_;
  std::unordered_map<std::string, Chain> chains_;
  std::vector<Strand> strands_;
  int growing_ = 0;

  friend class Admission;
};

}  // namespace muster::schedule
