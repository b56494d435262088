#include "schedule/running_jobs.hpp"

namespace muster::schedule {

void RunningJobs::add(JobIndex job, std::optional<Time> expected_end, std::optional<Time> deadline) {
  all_.emplace(job, Moment{});
  unexpected_.insert(job);
  expect(job, expected_end);
  set_deadline(job, deadline);
}

void RunningJobs::remove(JobIndex job) {
  expect(job, std::nullopt);
  set_deadline(job, std::nullopt);
  unexpected_.erase(job);
  all_.erase(job);
}

void RunningJobs::expect(JobIndex job, std::optional<Time> end) {
  std::optional<Time>& known = all_.at(job).end;
  if (known) expected_.erase({*known, job});
  known = end;
  if (end) {
    expected_.emplace(*end, job);
    unexpected_.erase(job);
  } else {
    unexpected_.insert(job);
  }
}

void RunningJobs::set_deadline(JobIndex job, std::optional<Time> deadline) {
  std::optional<Time>& known = all_.at(job).deadline;
  if (known) deadlines_.erase({*known, job});
  known = deadline;
  if (deadline) deadlines_.emplace(*deadline, job);
}

std::optional<std::pair<Time, JobIndex>> RunningJobs::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return *deadlines_.begin();
}

}  // namespace muster::schedule
