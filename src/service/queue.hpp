// muster submit, queue, logs, stop and wait: the queue of this user.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "host/host.hpp"
#include "queue/archive.hpp"
#include "queue/archive_index.hpp"
#include "queue/queue_view.hpp"
#include "queue/state_folder.hpp"
#include "schedule/job.hpp"

namespace muster::service {

using JobIds = std::vector<schedule::JobId>;

struct SubmitRequest {
  schedule::Job job;                               // what all of them request; its id is not used
  bool by_plan = false;                            // the plan of each command decides how many GPUs: planned_gpus.hpp
  std::vector<std::vector<std::string>> commands;  // program first
};

// Jobs from lines of standard input: one shell command per line, grids expanded (queue/grid.hpp) unless they are to
// stay as they are. Empty lines and those that begin with # are skipped.
Result<std::vector<std::vector<std::string>>> commands_of_lines(std::string_view text, bool expand);

// "7", "7-12": the jobs that a user names.
Result<JobIds> read_job_ids(const std::vector<std::string>& words);

// How often a waiting command checks for a conductor, and how often it fails to start one before it gives up.
class ConductorWatch {
 public:
  void note(bool progress) {
    ++looks_;
    if (progress) starts_ = 0;
  }
  bool is_due() const { return looks_ % 10 == 0; }
  bool may_start() { return ++starts_ <= 20; }

 private:
  int looks_ = 0, starts_ = 0;
};

// This process becomes the queue's conductor, unless one is running: muster queue conduct. Returns the exit status.
int conduct_queue(const host::HostSources& sources);

class Queue {
 public:
  // sources: for a conductor that has to be started. To be used by a process without threads.
  static Result<Queue> open(host::HostSources sources);

  // Durable when this returns, or not submitted at all. The commands run in the current folder, with this process's
  // environment.
  Result<JobIds> submit(const SubmitRequest& submission);
  // The same for jobs that each have a command of their own, and depend on jobs of the queue or, by the names they have
  // here, on earlier ones among themselves.
  Result<JobIds> submit(std::vector<queue::QueuedJob> jobs);
  // Jobs that are not settled and belong to a chain whose name begins with this.
  Result<std::vector<schedule::Job>> open_jobs_of_chains(std::string_view beginning);
  // settled: called for each job that had already ended. If that is the only job, it is an error.
  Result<void> stop(const JobIds& ids, const std::function<void(const schedule::JobRecord&)>& settled = {});
  // Waits until all are settled; calls back for each when it is. The exit status of a command that waits for them: 0
  // when all succeeded, a single job's own exit status, else 1.
  // watch: shown the queue at every look, some fifty times a second; false: the wait ends, and the status
  // is that of what was settled.
  // Anything that holds up the queue is noted: on_note().
  using Watch = std::function<bool(const schedule::Scheduler&)>;
  Result<int> wait(const JobIds& ids, const std::function<void(const schedule::JobRecord&)>& settled,
                   const Watch& watch = {});
  // What the job wrote; where follow is set, until it is settled. not_begun: called at every look as long as it has
  // written nothing because it still waits.
  Result<void> logs(const schedule::JobId& id, bool follow, const std::function<void(std::string_view)>& write,
                    const std::function<void()>& not_begun = {});

  // Open jobs, and those settled last: this many, or all, including those in the archive.
  Result<std::string> table(std::optional<std::size_t> settled, bool colour);
  // Jobs of the journal, at least these; or all.
  Result<std::string> json(bool all);
  Result<std::string> why(const schedule::JobId& id);
  // Jobs that are not settled.
  Result<JobIds> open_jobs();
  // Continues from what is left of a damaged journal: queue/journal_repair.hpp. Returns what was done, in words.
  Result<std::string> repair();

  // Where to send what the user should know although nothing failed: jobs that were submitted, but wait for a conductor
  // that cannot be started now; a conductor that is stopped. Each text once.
  void on_note(std::function<void(const std::string&)> note) { note_ = std::move(note); }

  // Settled jobs that ended this long ago, and what is left of them: logs, records. Returns how many there were. Jobs
  // that others wait for stay.
  Result<std::size_t> forget(std::chrono::milliseconds older);

 private:
  Queue(queue::StateFolder folder, host::HostSources sources)
      : folder_(folder),
        sources_(std::move(sources)),
        archive_(queue::open_archive_index(folder)),
        view_(std::move(folder)) {}

  // The file that was submitted.
  Result<std::filesystem::path> hand_in(queue::Request& request);
  Result<void> ensure_conductor();
  // Brings the view up to date, and starts a conductor where jobs are open and none runs. Returns what has not been
  // taken yet.
  Result<std::vector<queue::Batch>> look();
  Result<void> attend(ConductorWatch& attendance, const JobIds& ids);
  void note(const std::string& text);
  Result<void> check_known(const JobIds& ids);
  // For a known job, whether it is in the journal or in the archive.
  const schedule::JobRecord* record_of(const schedule::JobId& id) const;
  Result<void> check_predecessors(const schedule::Job& job);
  Result<void> check_gpus(int wanted);
  Result<void> check_accepted(const schedule::JobId& first, int wanted, const std::filesystem::path& request);

  queue::StateFolder folder_;
  host::HostSources sources_;
  std::unique_ptr<queue::ArchiveIndex> archive_;
  std::map<schedule::JobId, queue::ArchivedJob> archived_;  // those that check_known() found
  queue::QueueView view_;
  std::function<void(const std::string&)> note_;
  std::string last_note_;
};

}  // namespace muster::service
