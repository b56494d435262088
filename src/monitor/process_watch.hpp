// What runs outside the queue: runs whose lock is held, and processes that hold GPUs.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "monitor/file_tail.hpp"
#include "monitor/queue_watch.hpp"
#include "monitor/run_watch.hpp"
#include "monitor/sample.hpp"

namespace muster::monitor {

class ProcessWatch {
 public:
  // runs: the folder in which muster train makes its runs.
  explicit ProcessWatch(std::filesystem::path runs) : runs_(std::move(runs)) {}

  // Adds those that are not jobs of the queue, and records with the sample's GPUs which of them they have.
  void add_jobs(Sample& sample, QueueWatch* queue);
  // The last lines of rank 0's output, for a job that add_jobs() added and that has a run.
  std::optional<std::vector<std::string>> lines_of(const std::string& id, std::size_t most);

 private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    std::optional<ProcessIdentity> process;
    std::string command;
    std::optional<std::string> job_of_queue;  // MUSTER_JOB in its environment
    std::optional<RunWatch> run;
    std::optional<Time> since;
    Clock::time_point next_search{};
    bool is_here = false;  // in this sample
  };

  void find_locked_runs();
  Known& know(const std::string& id, std::optional<pid_t> pid);
  void add_holders(Sample& sample, QueueWatch* queue);
  void add_runs(Sample& sample, QueueWatch* queue);
  JobSample& job_in(Sample& sample, const std::string& id, Known& known);

  std::filesystem::path runs_;
  ChangeMark runs_mark_;
  Clock::time_point last_listing_{};
  std::vector<std::filesystem::path> locked_;  // runs that some process works on
  std::map<std::string, Known> known_;
  std::optional<FileTail> focus_;
};

}  // namespace muster::monitor
