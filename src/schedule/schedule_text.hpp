// A schedule as text: what runs when, on which GPUs, after what; and a bar for each GPU.
#pragma once

#include <span>
#include <string>

#include "schedule/simulation.hpp"

namespace muster::schedule {

// Times count from the first start. A run that has not ended is drawn to the end of the picture.
std::string schedule_text(const Scheduler& scheduler, std::span<const JobRun> runs);

// "0-3,6" of numbers in their order; nothing for none.
std::string number_ranges(std::span<const int> numbers);
// The same, and "none".
std::string gpu_list(std::span<const GpuNumber> gpus);

// The time at which the last run ends; for runs that have not ended, begins.
Time end_of(std::span<const JobRun> runs);

}  // namespace muster::schedule
