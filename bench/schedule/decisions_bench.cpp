// How many scheduling decisions a second with 100,000 queued jobs on 1,024 GPUs: decisions_bench [jobs] [gpus].
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "schedule/journal.hpp"
#include "schedule/scheduler.hpp"

namespace {

using namespace muster::schedule;
using Stopwatch = std::chrono::steady_clock;

struct Workload {
  std::string name;
  bool gangs = false;       // 1 to 64 GPUs, most of them few; else one
  bool priorities = false;  // 41 classes
  bool predictions = true;  // else learned from earlier jobs of one of 50 labels
  int chain = 1;            // jobs in a chain
  int failing_percent = 0;  // attempts that fail and are tried again
};

std::vector<Job> make_jobs(const Workload& workload, int count, std::mt19937_64& chance) {
  std::vector<Job> jobs;
  for (int i = 0; i < count; ++i) {
    Job job;
    job.id.text = fmt::format("job{}", i);
    const auto roll = chance() % 100;
    if (workload.gangs)
      job.gpus.minimum = roll < 60 ? 1 : roll < 75 ? 2 : roll < 85 ? 4 : roll < 95 ? 8 : roll < 99 ? 16 : 64;
    if (workload.priorities) job.priority = static_cast<int>(chance() % 41) - 20;
    if (workload.predictions) job.prediction = std::chrono::seconds(10 + chance() % 3600);
    job.label = fmt::format("label{}", chance() % 50);
    if (workload.chain > 1) job.chain = ChainPlace{fmt::format("chain{}", i / workload.chain), 1 + i % workload.chain};
    job.retries = workload.failing_percent > 0 ? 3 : 0;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

struct Measured {
  std::size_t starts = 0, decisions = 0, events = 0;
  double submit_seconds = 0, run_seconds = 0, slowest_milliseconds = 0;
};

// Submits everything, then lets jobs end one by one on a virtual clock until all are done. Only the scheduler is timed.
Measured measure(const Workload& workload, int count, int gpus) {
  std::mt19937_64 chance(7);
  Scheduler scheduler;
  for (int gpu = 0; gpu < gpus; ++gpu) scheduler.apply({Time{}, GpuFound{fmt::format("{}", gpu)}}).value();
  Measured measured;
  std::multimap<Time, JobId> ends;
  double* total = &measured.submit_seconds;
  const auto apply = [&](const Event& event) {
    const auto begin = Stopwatch::now();
    const std::vector<Decision> decisions = scheduler.apply(event).value();
    const double took = std::chrono::duration<double>(Stopwatch::now() - begin).count();
    *total += took;
    if (total == &measured.run_seconds) {
      measured.slowest_milliseconds = std::max(measured.slowest_milliseconds, took * 1000);
      measured.decisions += decisions.size();
      ++measured.events;
    }
    for (const Decision& decision : decisions)
      if (const auto* start = std::get_if<Start>(&decision)) {
        if (total == &measured.run_seconds) ++measured.starts;
        ends.emplace(event.time + std::chrono::seconds(10 + chance() % 3600), start->job);
      }
  };
  for (Job& job : make_jobs(workload, count, chance)) apply({Time{}, Submitted{{std::move(job)}}});
  total = &measured.run_seconds;
  while (!ends.empty()) {
    auto next = ends.extract(ends.begin());
    const bool fails = static_cast<int>(chance() % 100) < workload.failing_percent;
    apply({next.key(), Ended{next.mapped(), Ended::How::exited, fails ? 1 : 0}});
  }
  if (!scheduler.is_idle()) std::abort();
  return measured;
}

}  // namespace

int main(int argc, char** argv) {
  const int jobs = argc > 1 ? std::atoi(argv[1]) : 100'000, gpus = argc > 2 ? std::atoi(argv[2]) : 1024;
  const std::vector<Workload> workloads{
      {.name = "one GPU each"},
      {.name = "gangs of 1 to 64", .gangs = true},
      {.name = "gangs, 41 priorities", .gangs = true, .priorities = true},
      {.name = "gangs, lengths learned", .gangs = true, .predictions = false},
      {.name = "gangs, chains of 10", .gangs = true, .chain = 10},
      {.name = "gangs, 10 % fail", .gangs = true, .failing_percent = 10},
  };
  for (const Workload& workload : workloads) {
    const Measured measured = measure(workload, jobs, gpus);
    fmt::print(
        "{{\"bench\": \"decisions\", \"workload\": \"{}\", \"jobs\": {}, \"gpus\": {}, \"submissions_per_second\": "
        "{:.0f}, "
        "\"starts\": {}, \"starts_per_second\": {:.0f}, \"decisions_per_second\": {:.0f}, \"slowest_event_ms\": "
        "{:.2f}}}\n",
        workload.name, jobs, gpus, jobs / measured.submit_seconds, measured.starts,
        static_cast<double>(measured.starts) / measured.run_seconds,
        static_cast<double>(measured.decisions) / measured.run_seconds, measured.slowest_milliseconds);
    std::fflush(stdout);
  }
}
