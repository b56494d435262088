// The jobs of the queue, from its files: the conductor is not asked, and none is started.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "monitor/file_tail.hpp"
#include "monitor/job_commands.hpp"
#include "monitor/run_watch.hpp"
#include "monitor/sample.hpp"
#include "queue/queue_view.hpp"

namespace muster::monitor {

class QueueWatch {
 public:
  explicit QueueWatch(queue::StateFolder folder);

  // Brings it up to date; files that have not changed are not read. Returns what went wrong, if anything.
  std::optional<std::string> refresh(Time now);

  // Which job has each GPU, by UUID.
  const std::map<std::string, std::string>& jobs_on_gpus() const { return jobs_on_gpus_; }
  // Running jobs, waiting ones and those settled last; at most this many of the last two. numbers: what users call the
  // GPUs, by UUID.
  void add_jobs(Sample& sample, const std::map<std::string, int>& numbers);
  // Runs that belong to jobs of the queue.
  bool has_run(const std::filesystem::path& folder) const;
  // A run that another watch found to be part of a running job. False if that job does not exist.
  bool adopt_run(const std::string& id, const std::filesystem::path& folder);

  // What the job wrote; if it waits, what for.
  std::optional<std::vector<std::string>> lines_of(const std::string& id, std::size_t most);
  // Whether this process is the conductor of this queue.
  bool is_conductor(pid_t pid) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct RunningJob {
    explicit RunningJob(const std::filesystem::path& path) : log(path) {}
    FileTail log;
    std::string last_line;
    Progress progress;  // according to the last line
    std::optional<RunWatch> run;
    Clock::time_point next_search{};
    std::chrono::seconds pause{1};  // between two searches; doubled each time
  };

  void sort_jobs();
  JobSample describe(const schedule::JobRecord& record, const std::map<std::string, int>& numbers);
  void add_progress(const schedule::JobRecord& record, JobSample& job);
  void look_for_run(const schedule::JobRecord& record, RunningJob& running) const;
  const std::vector<std::string>& reasons_to_wait(const schedule::JobId& id);

  queue::StateFolder folder_;
  queue::QueueView view_;
  JobCommands commands_;
  ChangeMark journal_, inbox_;
  Clock::time_point last_read_{};
  Time now_{};
  std::vector<queue::Batch> untaken_;
  std::vector<schedule::JobIndex> running_, waiting_, settled_;
  JobCounts counts_;
  std::map<std::string, std::string> jobs_on_gpus_;
  std::unordered_map<std::string, RunningJob> watched_;
  std::optional<FileTail> focus_;
  struct Reasons {
    std::string job;
    schedule::Time last_event;
    Clock::time_point found;
    std::vector<std::string> lines;
  } reasons_;
};

}  // namespace muster::monitor
