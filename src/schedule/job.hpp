// What one job asks of the scheduler. What it does is up to the caller: nothing here names a command.
#pragma once

#include <chrono>
#include <compare>
#include <optional>
#include <string>
#include <vector>

namespace muster::schedule {

using Duration = std::chrono::milliseconds;
// The caller's clock, given with every event. On the virtual clock of a simulation it begins at Time{}.
using Time = std::chrono::sys_time<Duration>;

struct JobId {
  std::string text;
  auto operator<=>(const JobId&) const = default;
};

// A GPU's place in the scheduler's pool, in the order in which GPUs were announced. Which GPU that is, only the
// caller knows.
enum class GpuNumber : int {};
constexpr int number(GpuNumber gpu) { return static_cast<int>(gpu); }

// A job begins with all GPUs it gets. It never gets fewer than minimum; it gets more if no other job can use them.
struct GpuRequest {
  int minimum = 1;             // 0: none, and then maximum is 0 too
  std::optional<int> maximum;  // absent: minimum

  static GpuRequest exactly(int count) { return {count, count}; }
  int most() const { return maximum.value_or(minimum); }
  bool is_elastic() const { return most() > minimum; }
  bool operator==(const GpuRequest&) const = default;
};

// Rounds of a chain follow one another: a job of round k waits until all jobs of round k−1 of its chain succeeded.
struct ChainPlace {
  std::string name;
  int round = 1;
  bool operator==(const ChainPlace&) const = default;
};

struct Job {
  JobId id;
  GpuRequest gpus;
  std::vector<JobId> after;     // begins when these have ended, however they did
  std::vector<JobId> after_ok;  // begins when these have succeeded; is skipped when one cannot
  std::optional<ChainPlace> chain;
  int priority = 0;                 // higher goes first, lowest_priority … highest_priority
  int retries = 0;                  // further attempts after a failure
  std::optional<Duration> timeout;  // of one attempt; a job that exceeded it is not tried again
  std::optional<Duration>
      heartbeat;  // the longest silence; a job that was silent for longer is stopped and tried again
  std::optional<Duration> prediction;  // of one attempt on gpus.minimum GPUs
  std::string label;                   // jobs of one label, or else of one kind, predict how long the next ones take
  std::string kind;
  bool operator==(const Job&) const = default;
};

constexpr int lowest_priority = -100, highest_priority = 100;
constexpr int most_retries = 1000, most_gpus = 1'000'000;
constexpr Duration longest_span = std::chrono::hours(24 * 365 * 10);

}  // namespace muster::schedule
