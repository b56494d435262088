// What Slurm tells a process that srun started. Pure: reads an environment, asks nobody.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "launch/worker_environment.hpp"

namespace muster::launch {

// The value of an environment variable; absent: not set.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

// Whether srun started this process: Note [Tasks of Slurm] in slurm.cpp.
bool is_slurm_task(const EnvironmentLookup& lookup);

// How many tasks the host with this number has by Slurm's list, "2(x3),1"; nothing when the list does not say.
std::optional<int> slurm_tasks_on_host(std::string_view list, int host);

// One task of a job step.
struct SlurmTask {
  int rank = 0;              // SLURM_PROCID
  int task_count = 1;        // SLURM_NTASKS
  int local_rank = 0;        // SLURM_LOCALID
  int local_task_count = 1;  // tasks of the step on this host
  int host_index = 0;        // SLURM_NODEID
  int host_count = 1;        // SLURM_NNODES
  std::string first_host;    // of the step: where rank 0 is
  std::string job;           // "4711" or "4711.0": the same on all tasks
  std::optional<std::chrono::system_clock::time_point> end;
};

// Nothing when srun did not start this process.
Result<std::optional<SlurmTask>> slurm_task(const Environment& environment);

// When Slurm will end the job, where it says so.
std::optional<std::chrono::system_clock::time_point> slurm_job_end(const Environment& environment);

// "node[01-03,07],login" → node01 node02 node03 node07 login. At most 65536 hosts.
Result<std::vector<std::string>> expand_host_list(std::string_view list);

// The port at which the first host of a job step serves: all hosts must come to the same without asking each other.
std::uint16_t slurm_port(std::string_view job);

}  // namespace muster::launch
