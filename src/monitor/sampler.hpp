// Combines GPUs, queue and runs. It only reads; what has not changed is not read again.
#pragma once

#include <filesystem>
#include <optional>

#include "monitor/process_watch.hpp"
#include "monitor/queue_watch.hpp"
#include "monitor/sample.hpp"

namespace muster::monitor {

class Sampler {
 public:
  // queue: absent if this user has no place for one. runs: where muster train makes its runs.
  Sampler(std::optional<queue::StateFolder> queue, std::filesystem::path runs);

  Sample take(const GpuReport& gpus, const Focus& focus, Time now);

 private:
  std::optional<QueueWatch> queue_;
  ProcessWatch processes_;
};

}  // namespace muster::monitor
