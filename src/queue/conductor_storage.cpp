// Settled jobs leave the journal, so that a queue stays as fast as it was when it was new.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>

#include "system/files.hpp"
#include "system/replace_folder.hpp"
#include "queue/archive.hpp"
#include "queue/conductor.hpp"

namespace muster::queue {
namespace {

// A journal is worth shortening if it has more lines than would be left of it, and some more.
constexpr std::size_t many_lines = 4000;
// When there is nothing else to do, far fewer are enough.
constexpr std::size_t some_lines = 100;

bool holds_known_job(const Batch& batch, const schedule::Scheduler& scheduler) {
  return std::ranges::any_of(batch.jobs,
                             [&](const QueuedJob& queued) { return scheduler.jobs().find(queued.job.id).has_value(); });
}

}  // namespace

// What fails here is tried again later: the journal is just longer than necessary.
void Conductor::tidy() {
  constexpr std::chrono::seconds between_tries(1);
  if (std::chrono::steady_clock::now() < next_tidy_) return;
  const std::size_t enough = is_idle() ? some_lines : std::max(many_lines, scheduler().jobs().size());
  Result<void> tidied;
  if (!forget_requests_.empty()) tidied = forget();
  if (tidied && journal_.lines() >= enough) tidied = shorten();
  if (tidied) return;
  write_log_once(tidied.error().what);
  next_tidy_ = std::chrono::steady_clock::now() + between_tries;
}

// The archive first: a kill in between leaves jobs in both, which count once. What was taken out of the inbox is
// on the disk before: a batch whose jobs are no longer in the journal would be taken for a new one.
Result<void> Conductor::shorten() {
  for (const auto& changed : {folder_.inbox(), folder_.batches()})
    if (auto flushed = flush_folder(changed); !flushed) return flushed;
  const auto leaving = jobs_to_archive(scheduler(), options_.kept);
  BatchFiles batches(folder_.batches());
  std::vector<ArchivedJob> archived;
  for (const schedule::JobIndex job : leaving) {
    ArchivedJob& row = archived.emplace_back(scheduler().jobs().at(job), std::vector<std::string>());
    row.record.because.reset();  // a place in a table that will change; the reason names it
    row.command = batches.command_of(row.record.job.id);
  }
  std::ranges::sort(archived, {}, [](const ArchivedJob& job) { return job.record.rank.order; });
  if (auto added = add_to_archive(folder_, archived); !added) return added;
  if (auto shortened = shorten_journal(leaving); !shortened) return shortened;
  std::vector<std::filesystem::path> files;
  for (const auto& [file, batch] : batches.read()) files.push_back(file);
  remove_batches_without_jobs(files);
  ::malloc_trim(0);  // every keeper begins as a copy of this process
  return {};
}

Result<void> Conductor::shorten_journal(const std::unordered_set<schedule::JobIndex>& leaving) {
  const auto shortened = journal_.shorten(leaving);
  if (!shortened) return shortened.error();
  if (!*shortened) write_log("internal error: a snapshot cannot be read back; the journal stays as it is");
  return {};
}

Result<void> Conductor::forget() {
  for (const auto& changed : {folder_.inbox(), folder_.batches()})
    if (auto flushed = flush_folder(changed); !flushed) return flushed;
  if (auto removed = remove_from_archive(folder_, to_forget_); !removed) return removed;
  std::unordered_set<schedule::JobIndex> forgotten;
  for (const std::string& id : to_forget_)
    if (const auto job = scheduler().jobs().find({id})) forgotten.insert(*job);
  if (auto shortened = shorten_journal(scheduler().can_forget(std::move(forgotten))); !shortened) return shortened;
  remove_batches_without_jobs(lines_files_in(folder_.batches()));
  for (const auto& file : forget_requests_) ::unlink(file.c_str());
  forget_requests_.clear();
  to_forget_.clear();
  return {};
}

// Removes batches whose jobs are no longer in the journal.
void Conductor::remove_batches_without_jobs(const std::vector<std::filesystem::path>& files) const {
  for (const auto& file : files)
    if (const auto batch = read_batch(file); batch && !holds_known_job(*batch, scheduler())) ::unlink(file.c_str());
}

}  // namespace muster::queue
