// Where the queue of a user is stored. Its files are the whole truth: reading them tells everything.
//   counter               the next job and request numbers; its lock is held while a request is submitted
//   inbox/<number>.jsonl  requests that were not taken yet
//   batches/<id>.jsonl    requests that were taken, by their first job
//   refused/<id>.jsonl    requests that could not be accepted; <id>.txt says why
//   journal.jsonl         the scheduler's events: schedule/journal.hpp. Replaced by a shorter one now and then
//   archive.jsonl         settled jobs that are no longer in the journal: archive.hpp
//   jobs/<id>/            log, and attempt-<k>.jsonl for each attempt: attempt_file.hpp
//   conductor.lock, conductor.log
//   boot                  which boot of the machine the last conductor saw
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schedule/job.hpp"

namespace muster::queue {

class StateFolder {
 public:
  explicit StateFolder(std::filesystem::path path) : path_(std::move(path)) {}

  // $MUSTER_STATE/queue, else ~/.local/state/muster/queue.
  static Result<StateFolder> usual();

  // Creates what is missing, for this user alone: requests contain environments.
  Result<void> prepare() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path counter() const { return path_ / "counter"; }
  std::filesystem::path inbox() const { return path_ / "inbox"; }
  std::filesystem::path batches() const { return path_ / "batches"; }
  std::filesystem::path refused() const { return path_ / "refused"; }
  std::filesystem::path journal() const { return path_ / "journal.jsonl"; }
  std::filesystem::path archive() const { return path_ / "archive.jsonl"; }
  std::filesystem::path boot() const { return path_ / "boot"; }
  std::filesystem::path conductor_lock() const { return path_ / "conductor.lock"; }
  std::filesystem::path conductor_log() const { return path_ / "conductor.log"; }
  std::filesystem::path job(const schedule::JobId& id) const { return path_ / "jobs" / id.text; }
  std::filesystem::path log(const schedule::JobId& id) const { return job(id) / "log"; }
  // Touched by a job to show that it is alive.
  std::filesystem::path heartbeat(const schedule::JobId& id) const { return job(id) / "heartbeat"; }
  std::filesystem::path attempt(const schedule::JobId& id, int attempt) const;

 private:
  std::filesystem::path path_;
};

// The *.jsonl files of a folder, sorted.
std::vector<std::filesystem::path> lines_files_in(const std::filesystem::path& folder);

}  // namespace muster::queue
