// The state at one moment: GPUs, jobs, the last lines of one job's log. Plain values; what is not known is absent.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_count.hpp"
#include "system/process.hpp"

namespace muster::monitor {

using Time = std::chrono::sys_time<std::chrono::milliseconds>;

// The holder of a lease on a GPU.
struct GpuHolder {
  std::optional<pid_t> pid;
  std::optional<std::string> user, command;
  std::optional<std::int64_t> since;  // seconds since 1970
  bool operator==(const GpuHolder&) const = default;
};

// A process that uses a GPU, with a lease or without one.
struct GpuUser {
  pid_t pid = 0;
  std::optional<std::string> user;
  std::optional<ByteCount> memory;
  bool operator==(const GpuUser&) const = default;
};

struct GpuSample {
  int index = 0;             // on this machine
  std::optional<int> shown;  // the number that users know it by; absent if the mask hides it
  std::optional<std::string> uuid, name;
  std::optional<ByteCount> memory_total, memory_used;
  std::optional<int> utilization;            // percent
  std::optional<int> temperature;            // Celsius
  std::optional<double> power, power_limit;  // W
  std::optional<std::string> sickness;
  std::optional<GpuHolder> holder;
  std::vector<GpuUser> users;
  std::optional<std::string> job;  // the id of the job it was given to
  bool operator==(const GpuSample&) const = default;
};

// One look at the GPUs.
struct GpuReport {
  std::vector<GpuSample> gpus;
  std::string explanation;  // if there is none: why; if they cannot be read: what went wrong
  bool operator==(const GpuReport&) const = default;
};

struct Progress {
  std::optional<std::int64_t> step, total;
  std::optional<double> loss, tokens_per_second, seconds_left;
  bool operator==(const Progress&) const = default;
};

enum class JobKind {
  queued,   // of the queue
  process,  // a command outside the queue: a run, or a process that holds a GPU
};
enum class JobPhase { running, waiting, settled };

struct JobSample {
  std::string id;  // "7" in the queue, else "pid 4711"
  JobKind kind = JobKind::queued;
  JobPhase phase = JobPhase::waiting;
  std::string state;  // "running", "ready", …
  std::string label;  // of a run: its name
  std::string command;
  std::vector<int> gpus;  // by the numbers that users know them by
  int gpus_wanted = 0;    // while it waits
  Progress progress;
  std::optional<Time> since, ended;
  std::string last_line;                   // of its log
  std::string reason;                      // why it was settled so, or what went wrong before
  std::optional<std::string> run;          // the folder of its run
  std::optional<ProcessIdentity> process;  // for JobKind::process: the one that is asked to end
  bool operator==(const JobSample&) const = default;
};

struct JobCounts {
  std::size_t running = 0, waiting = 0, settled = 0;
  bool operator==(const JobCounts&) const = default;
};

// Which job is shown in detail, and how many lines of its log are wanted.
struct Focus {
  std::string job;
  std::size_t lines = 0;
  bool operator==(const Focus&) const = default;
};

struct Sample {
  Time time;
  GpuReport gpus;
  // How long the driver has not answered, if that is long, or it never did.
  std::optional<std::chrono::milliseconds> gpus_silent;
  std::vector<JobSample> jobs;  // running ones, then waiting ones in their order, then settled ones, the newest first
  JobCounts counts;             // of all jobs, including those settled long ago
  std::string focus;            // the job that the lines belong to
  std::vector<std::string> lines;  // of its log, or what it waits for
  std::vector<std::string> notes;  // what could not be read
  bool operator==(const Sample&) const = default;
};

// {"time", "gpus": […], "jobs": […], "counts", "notes"}: docs/top.md.
std::string sample_json(const Sample& sample);

// A report as one line, and back; for a process that looks at the GPUs on behalf of another.
std::string report_line(const GpuReport& report);
std::optional<GpuReport> parse_report(std::string_view line);

}  // namespace muster::monitor
