// muster top: shows what happens on this machine and in this user's queue, repeatedly, and can stop parts of it.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "host/host.hpp"
#include "monitor/gpu_watch.hpp"
#include "monitor/sampler.hpp"
#include "monitor/side_process.hpp"

namespace muster::service {

class LiveView {
 public:
  // runs: where muster train makes its runs. To be used by a process without threads. Nothing is created, no conductor
  // is started: a queue that does not exist is an empty one.
  static Result<LiveView> open(const host::HostSources& sources, std::filesystem::path runs);

  // Asks for a look at the GPUs; the answer comes by itself, or never.
  void ask_for_gpus() { gpus_.ask(std::chrono::steady_clock::now()); }
  // Descriptors that are readable when receive() has something to do.
  std::vector<int> descriptors() const;
  // Takes in what has arrived. Returns whether an answer about the GPUs was among it.
  bool receive();
  bool has_gpus() const { return gpus_.has_answered(); }
  // Everything, with the last answer about the GPUs; never waits.
  monitor::Sample sample(const monitor::Focus& focus);

  // Asks a job to end: one of the queue as muster stop does, others by SIGTERM. It may not have ended, or even have
  // been asked, when this returns; outcomes are reported later.
  void stop(const monitor::JobSample& job);
  // The outcomes of calls of stop() since the last time: a line for each.
  std::vector<std::string> take_outcomes();
  bool is_stopping() const { return !stopping_.empty(); }

 private:
  LiveView(host::HostSources sources, monitor::GpuWatch gpus, monitor::Sampler sampler, std::vector<std::string> notes)
      : sources_(std::move(sources)), gpus_(std::move(gpus)), sampler_(std::move(sampler)), notes_(std::move(notes)) {}

  struct Stopping {
    std::string job;
    monitor::SideProcess process;
  };

  host::HostSources sources_;
  monitor::GpuWatch gpus_;
  monitor::Sampler sampler_;
  std::vector<std::string> notes_;
  std::vector<Stopping> stopping_;
  std::vector<std::string> outcomes_;
};

}  // namespace muster::service
