#include "schedule/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace muster::schedule {
namespace {

constexpr std::size_t most_listed = 8;

std::string list(const std::vector<JobId>& ids) {
  std::vector<std::string> names;
  for (const JobId& id : ids)
    if (names.size() < most_listed) names.push_back(id.text);
  std::string text = join(names, ", ");
  if (ids.size() > most_listed) text += fmt::format(" and {} more", ids.size() - most_listed);
  return text;
}

}  // namespace

Summary summarize(const Scheduler& scheduler) {
  Summary summary;
  const std::vector<JobRecord>& jobs = scheduler.jobs().all();
  std::map<JobIndex, std::vector<JobId>> taken_along;
  std::vector<std::optional<JobIndex>> root(jobs.size());  // of a skipped job: the one that failed or was cancelled
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobRecord& record = jobs[i];
    if (!is_settled(record.state)) ++summary.open;
    if (record.state == JobState::succeeded) ++summary.succeeded;
    if (record.state == JobState::failed) ++summary.failed;
    if (record.state == JobState::cancelled) ++summary.cancelled;
    if (record.state != JobState::skipped || !record.because) continue;
    ++summary.skipped;
    root[i] = root[position(*record.because)].value_or(*record.because);  // dependencies come before it in the table
    taken_along[*root[i]].push_back(record.job.id);
  }
  for (const JobRecord& record : jobs)
    if (record.state == JobState::failed || record.state == JobState::cancelled)
      summary.failures.push_back(
          {record.job.id, record.reason, record.attempts, std::move(taken_along[record.rank.order])});
  return summary;
}

std::string to_text(const Summary& summary) {
  const int all = summary.succeeded + summary.failed + summary.skipped + summary.cancelled + summary.open;
  std::string text = fmt::format("{} job{}: {} succeeded", all, all == 1 ? "" : "s", summary.succeeded);
  const auto add = [&](int count, std::string_view word) {
    if (count > 0) text += fmt::format(", {} {}", count, word);
  };
  add(summary.failed, "failed");
  add(summary.skipped, "skipped");
  add(summary.cancelled, "cancelled");
  add(summary.open, "not ended");
  text += "\n";
  for (const Summary::Failure& failure : summary.failures) {
    text += fmt::format("{}: {}", failure.job.text, failure.reason);
    if (failure.attempts > 1) text += fmt::format(" (attempt {})", failure.attempts);
    text += "\n";
    if (!failure.skipped.empty()) text += fmt::format("  skipped with it: {}\n", list(failure.skipped));
  }
  return text;
}

}  // namespace muster::schedule
