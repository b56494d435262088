// What users ask of the conductor.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>

#include "system/files.hpp"
#include "base/text.hpp"
#include "queue/archive.hpp"
#include "queue/conductor.hpp"

namespace muster::queue {

using schedule::JobId;

constexpr std::size_t many_jobs = 1000;

// A missing or damaged file affects only its own jobs: they fail when they should start.
void Conductor::load_batches() {
  std::vector<std::filesystem::path> files = lines_files_in(folder_.batches());
  for (const auto& file : files) {
    if (auto batch = read_batch(file))
      book(std::move(*batch));
    else
      write_log(fmt::format("{} cannot be read: its jobs cannot be started", file.string()));
  }
  remove_batches_without_jobs(files);
}

void Conductor::take_inbox() {
  has_postponed_ = false;
  for (const auto& file : lines_files_in(folder_.inbox())) {
    if (std::ranges::find(forget_requests_, file) != forget_requests_.end()) continue;
    const auto text = read_file(file);
    if (!text) {  // too many open files, perhaps: it may be readable later
      write_log_once(text.error().what);
      has_postponed_ = true;
      continue;
    }
    auto request = parse_request(*text, file.string());
    if (!request)
      refuse(file, file.stem().string(), request.error());
    else
      std::visit([&](auto& what) { take(std::move(what), file); }, *request);
  }
}

void Conductor::take(Batch batch, const std::filesystem::path& file) {
  const JobId first = batch.jobs.front().job.id;
  // One that is already in the journal was taken by a conductor that was killed before it could move the file away.
  if (!scheduler().jobs().find(first)) {
    schedule::Submitted submitted;
    int wanted = 0;
    for (const QueuedJob& queued : batch.jobs) {
      submitted.jobs.push_back(queued.job);
      wanted = std::max(wanted, queued.job.gpus.minimum);
    }
    if (!gpus_are_known_ && wanted > scheduler().gpus().size()) {
      has_postponed_ = true;
      return;
    }
    if (auto resolved = resolve_archived(submitted.jobs); !resolved) {
      if (resolved.error().kind == Error::Kind::refused) return refuse(file, first.text, resolved.error());
      write_log_once(resolved.error().what);  // the archive may be readable later
      has_postponed_ = true;
      return;
    }
    if (auto told = journal_.tell(std::move(submitted)); !told) return refuse(file, first.text, told.error());
  }
  const bool is_large = batch.jobs.size() > many_jobs;
  book(std::move(batch));
  if (is_large) ::malloc_trim(0);  // every keeper begins as a copy of this process
  moves_.emplace_back(file, folder_.batches() / (first.text + ".jsonl"));
}

// The scheduler does not know archived jobs. A job that comes after one that has ended does not have to wait for it.
Result<void> Conductor::resolve_archived(std::vector<schedule::Job>& jobs) const {
  std::unordered_set<std::string> known, unknown;
  for (const schedule::Job& job : jobs) {
    for (const std::vector<JobId>* list : {&job.after, &job.after_ok})
      for (const JobId& id : *list)
        if (!known.contains(id.text) && !scheduler().jobs().find(id)) unknown.insert(id.text);
    known.insert(job.id.text);
  }
  if (unknown.empty()) return {};
  const auto archived = ScannedArchive(folder_).find(unknown);
  if (!archived) return archived.error();
  for (const ArchivedJob& old : *archived)
    for (schedule::Job& job : jobs) {
      const JobId& id = old.record.job.id;
      std::erase(job.after, id);
      if (std::erase(job.after_ok, id) > 0 && old.record.state != schedule::JobState::succeeded)
        return Error{Error::Kind::refused,
                     fmt::format("job {} was to succeed before it, and is {}", id.text, name(old.record.state)), ""};
    }
  return {};
}

void Conductor::take(const StopRequest& request, const std::filesystem::path& file) {
  for (const JobId& job : request.jobs) tell(schedule::Cancelled{job});
  moves_.emplace_back(file, "");
}

// Done at the end of this turn, when the journal is written: Conductor::forget().
void Conductor::take(const ForgetRequest& request, const std::filesystem::path& file) {
  for (const JobId& job : request.jobs) to_forget_.insert(job.text);
  forget_requests_.push_back(file);
}

void Conductor::refuse(const std::filesystem::path& file, const std::string& name, const Error& error) {
  write_log(fmt::format("{} is refused: {}", file.string(), error.what));
  if (auto written = write_file_atomically(folder_.refused() / (name + ".txt"), split(error.what, '\n').front() + "\n");
      !written)
    write_log(written.error().what);
  std::error_code ignored;
  std::filesystem::rename(file, folder_.refused() / (name + ".jsonl"), ignored);
}

void Conductor::book(Batch batch) {
  commands_.add(std::move(batch), [this](const JobId& id) {
    const auto job = scheduler().jobs().find(id);
    return job && !is_settled(scheduler().jobs().at(*job).state);
  });
}

}  // namespace muster::queue
