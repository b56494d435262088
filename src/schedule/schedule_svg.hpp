// A schedule as a picture: a row for each GPU, a box for each run, an arrow for each dependency.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schedule/simulation.hpp"

namespace muster::schedule {

// Readable on white and on black. Boxes of one chain have one colour; pointing at a box shows its id, times and GPUs.
std::string schedule_svg(std::string_view title, const Scheduler& scheduler, std::span<const JobRun> runs);

}  // namespace muster::schedule
