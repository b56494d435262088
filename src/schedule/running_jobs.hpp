// When running jobs are expected to end, and when to stop them if they give no sign of life.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "schedule/job.hpp"
#include "schedule/job_index.hpp"

namespace muster::schedule {

class RunningJobs {
 public:
  using Moments = std::set<std::pair<Time, JobIndex>>;

  void add(JobIndex job, std::optional<Time> expected_end, std::optional<Time> deadline);
  void remove(JobIndex job);
  void expect(JobIndex job, std::optional<Time> end);
  void set_deadline(JobIndex job, std::optional<Time> deadline);

  std::size_t size() const { return all_.size(); }
  const Moments& expected() const { return expected_; }                 // the first to end first
  const std::set<JobIndex>& unexpected() const { return unexpected_; }  // their end is unknown
  std::optional<std::pair<Time, JobIndex>> next_deadline() const;

 private:
  struct Moment {
    std::optional<Time> end, deadline;
  };
  std::unordered_map<JobIndex, Moment> all_;
  Moments expected_, deadlines_;
  std::set<JobIndex> unexpected_;
};

}  // namespace muster::schedule
