// Facts of a sample in the words that both the screen and the plain text use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/table.hpp"
#include "monitor/sample.hpp"

namespace muster::monitor {

// Foreign text on one line, without anything that a terminal would obey.
std::string clean(const std::string& text, bool unicode);

// The number that users know it by, "-" if it is hidden from them.
std::string id_words(const GpuSample& gpu);
// "31.0/40.0 GiB", "-" if nothing is known.
std::string memory_words(const GpuSample& gpu);
std::string percent_words(const std::optional<int>& percent);  // "97 %"
std::string temperature_words(const GpuSample& gpu);           // "68 C"
std::string power_words(const GpuSample& gpu);                 // "361/400 W"
// From 0 to 1.
std::optional<double> memory_share(const GpuSample& gpu);
// What uses it, most important first: sick, given to a job, leased, in use, hidden, free.
Cell user_of(const GpuSample& gpu, const Sample& sample);

// "0-3,6"; for a waiting job, how many it wants: "(2)".
std::string gpu_words(const JobSample& job);
// From 0 to 1.
std::optional<double> share_done(const Progress& progress);
std::string step_words(const Progress& progress);  // "120/1200"
std::string loss_words(const Progress& progress);  // "0.8312"
std::string rate_words(const Progress& progress);  // "5210"
// How long it has been running, ran, or has been waiting.
std::string time_words(const JobSample& job, Time now);
std::string left_words(const JobSample& job);
Colour colour_of(const JobSample& job);
// The last known fact about it: what it wrote, or why it ended.
std::string last_words(const JobSample& job);

// "0:58", "12:03", "2:03:04", "3d 04h"
std::string clock_words(double seconds);
// "8 GPUs, 3 in use · jobs: 4 running, 190 waiting, 6 ended"
std::string summary_words(const Sample& sample, bool unicode);
// What is wrong with the look at the GPUs, if anything.
std::optional<std::string> gpu_trouble(const Sample& sample);

}  // namespace muster::monitor
