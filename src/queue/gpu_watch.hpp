// What successive looks at the GPUs mean for the scheduler. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "queue/gpu_source.hpp"
#include "schedule/event.hpp"
#include "schedule/scheduler.hpp"

namespace muster::queue {

class GpuWatch {
 public:
  // The events that follow: Note [GPUs that are not there].
  std::vector<schedule::Happening> compare(const Result<GpuListing>& seen, const schedule::Scheduler& scheduler);
  // Links name GPUs by number, so this comes after those were found.
  std::optional<schedule::GpusLinked> compare_links(const Result<GpuListing>& seen,
                                                    const schedule::Scheduler& scheduler) const;

 private:
  std::map<std::string, int> missing_;  // consecutive looks that did not show a GPU which an earlier one had shown
  std::set<std::string> shown_;         // by any look
};

}  // namespace muster::queue
