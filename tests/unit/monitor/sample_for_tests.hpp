// A moment of a machine of eight GPUs, for the tests that draw it.
#pragma once

#include <fmt/format.h>

#include "monitor/drawing.hpp"
#include "monitor/view.hpp"

namespace muster::monitor {

inline JobSample job(std::string id, JobPhase phase, std::string state, std::string command) {
  JobSample made;
  made.id = std::move(id);
  made.phase = phase;
  made.state = std::move(state);
  made.command = std::move(command);
  return made;
}

inline Sample busy_machine() {
  Sample sample;
  sample.time = Time(std::chrono::seconds(100'000));
  for (int index = 0; index < 8; ++index) {
    GpuSample gpu;
    gpu.index = index;
    gpu.shown = index;
    gpu.name = "NVIDIA A100-SXM4-40GB";
    gpu.memory_total = gibibytes(40);
    gpu.memory_used = gibibytes(index * 5);
    gpu.utilization = index * 14;
    gpu.temperature = 30 + index;
    gpu.power = 55.4;
    gpu.power_limit = 400;
    sample.gpus.gpus.push_back(gpu);
  }
  auto& gpus = sample.gpus.gpus;
  gpus[0].job = gpus[1].job = "7";
  gpus[2].holder = GpuHolder{4711, "alice", "python train.py", 90'000};
  gpus[3].users = {{99, "bob", gibibytes(1)}};
  gpus[4].sickness = "row remap failed";
  gpus[5].shown.reset();
  JobSample running = job("7", JobPhase::running, "running", "muster train -c run.yaml");
  running.label = "sums";
  running.gpus = {0, 1};
  running.progress = {120, 1200, 0.8312, 5210.4, 58};
  running.since = sample.time - std::chrono::seconds(65);
  JobSample waiting = job("8", JobPhase::waiting, "ready", "python compare.py");
  waiting.gpus_wanted = 8;
  waiting.since = sample.time - std::chrono::seconds(3700);
  JobSample failed = job("3", JobPhase::settled, "failed", "false");
  failed.since = sample.time - std::chrono::hours(30);
  failed.ended = *failed.since + std::chrono::hours(28);
  failed.reason = "exit status 1";
  sample.jobs = {running, waiting, failed};
  sample.counts = {1, 1, 1};
  sample.focus = "7";
  sample.lines = {"step 119/1200", "step 120/1200"};
  return sample;
}

// A machine without GPUs and with this many jobs that wait: 1, 2, ….
inline Sample waiting_jobs(std::size_t count) {
  Sample sample;
  sample.gpus.explanation = "no NVIDIA driver";
  for (std::size_t i = 1; i <= count; ++i)
    sample.jobs.push_back(job(std::to_string(i), JobPhase::waiting, "waiting", fmt::format("work {}", i)));
  sample.counts.waiting = count;
  return sample;
}

inline Key letter(std::string text) { return {KeyKind::text, std::move(text)}; }

}  // namespace muster::monitor
