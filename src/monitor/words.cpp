#include "monitor/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/cell_text.hpp"
#include "base/text.hpp"
#include "schedule/schedule_text.hpp"

namespace muster::monitor {
namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;

double in_gibibytes(ByteCount bytes) { return static_cast<double>(bytes.value) / gibibyte; }

const JobSample* find_job(const Sample& sample, const std::string& id) {
  const auto found = std::ranges::find(sample.jobs, id, &JobSample::id);
  return found == sample.jobs.end() ? nullptr : &*found;
}

std::string name_of(const JobSample* job, const std::string& id) {
  const std::string word = id.starts_with("pid ") ? id : "job " + id;
  if (job == nullptr) return word;
  return word + " " + (job->label.empty() ? job->command : job->label);
}

bool is_used(const GpuSample& gpu) { return gpu.job || gpu.holder || !gpu.users.empty(); }

}  // namespace

std::string clean(const std::string& text, bool unicode) {
  std::string line = text;
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return visible_line(line, !unicode);
}

std::string id_words(const GpuSample& gpu) { return gpu.shown ? std::to_string(*gpu.shown) : "-"; }

std::string memory_words(const GpuSample& gpu) {
  if (!gpu.memory_total) return "-";
  if (!gpu.memory_used) return fmt::format("-/{:.1f} GiB", in_gibibytes(*gpu.memory_total));
  return fmt::format("{:.1f}/{:.1f} GiB", in_gibibytes(*gpu.memory_used), in_gibibytes(*gpu.memory_total));
}

std::string percent_words(const std::optional<int>& percent) { return percent ? fmt::format("{} %", *percent) : "-"; }

std::string temperature_words(const GpuSample& gpu) {
  return gpu.temperature ? fmt::format("{} C", *gpu.temperature) : "-";
}

std::string power_words(const GpuSample& gpu) {
  if (!gpu.power) return "-";
  return gpu.power_limit ? fmt::format("{:.0f}/{:.0f} W", *gpu.power, *gpu.power_limit)
                         : fmt::format("{:.0f} W", *gpu.power);
}

std::optional<double> memory_share(const GpuSample& gpu) {
  if (!gpu.memory_total || !gpu.memory_used || gpu.memory_total->value <= 0) return std::nullopt;
  return std::clamp(in_gibibytes(*gpu.memory_used) / in_gibibytes(*gpu.memory_total), 0.0, 1.0);
}

Cell user_of(const GpuSample& gpu, const Sample& sample) {
  if (gpu.sickness) return {"unhealthy: " + *gpu.sickness, Colour::red};
  if (gpu.job) return {name_of(find_job(sample, *gpu.job), *gpu.job), Colour::yellow};
  if (gpu.holder) {
    std::string words = gpu.holder->user.value_or("somebody");
    if (gpu.holder->pid) words += fmt::format(" pid {}", *gpu.holder->pid);
    return {words + " " + gpu.holder->command.value_or(""), Colour::yellow};
  }
  if (!gpu.users.empty()) {
    std::vector<std::string> users;
    for (const GpuUser& user : gpu.users)
      users.push_back(fmt::format("{} (pid {})", user.user.value_or("somebody"), user.pid));
    return {join(users, ", "), Colour::yellow};
  }
  if (!gpu.shown) return {"hidden by CUDA_VISIBLE_DEVICES", Colour::dim};
  return {"free", Colour::green};
}

std::string gpu_words(const JobSample& job) {
  if (job.phase == JobPhase::waiting) return job.gpus_wanted > 0 ? fmt::format("({})", job.gpus_wanted) : "";
  std::vector<int> numbers = job.gpus;
  std::ranges::sort(numbers);
  return schedule::number_ranges(numbers);
}

std::optional<double> share_done(const Progress& progress) {
  if (!progress.step || !progress.total || *progress.total <= 0) return std::nullopt;
  return std::clamp(static_cast<double>(*progress.step) / static_cast<double>(*progress.total), 0.0, 1.0);
}

std::string step_words(const Progress& progress) {
  if (!progress.step) return "";
  return progress.total ? fmt::format("{}/{}", *progress.step, *progress.total) : fmt::format("{}", *progress.step);
}

std::string loss_words(const Progress& progress) { return progress.loss ? fmt::format("{:.4g}", *progress.loss) : ""; }

std::string rate_words(const Progress& progress) {
  return progress.tokens_per_second ? fmt::format("{:.0f}", *progress.tokens_per_second) : "";
}

std::string time_words(const JobSample& job, Time now) {
  if (!job.since) return "";
  const Time end = job.phase == JobPhase::settled ? job.ended.value_or(now) : now;
  if (end < *job.since) return "";
  return clock_words(std::chrono::duration<double>(end - *job.since).count());
}

std::string left_words(const JobSample& job) {
  if (job.phase != JobPhase::running || !job.progress.seconds_left) return "";
  return clock_words(*job.progress.seconds_left);
}

Colour colour_of(const JobSample& job) {
  if (job.state == "failed") return Colour::red;
  if (job.state == "cancelled" || job.state == "skipped" || job.state == "stopping") return Colour::yellow;
  return job.phase == JobPhase::running ? Colour::green : job.phase == JobPhase::settled ? Colour::dim : Colour::plain;
}

std::string last_words(const JobSample& job) { return job.phase == JobPhase::running ? job.last_line : job.reason; }

std::string clock_words(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "";
  constexpr double most = 1e9;
  const auto whole = static_cast<std::int64_t>(std::min(seconds, most));
  const std::int64_t days = whole / 86400, hours = whole / 3600 % 24, minutes = whole / 60 % 60;
  if (days > 0) return fmt::format("{}d {:02}h", days, hours);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string summary_words(const Sample& sample, bool unicode) {
  const auto used = std::ranges::count_if(sample.gpus.gpus, is_used);
  const std::size_t count = sample.gpus.gpus.size();
  return fmt::format("{} GPU{}, {} in use {} jobs: {} running, {} waiting, {} ended", count, count == 1 ? "" : "s",
                     used, unicode ? "·" : "-", sample.counts.running, sample.counts.waiting, sample.counts.settled);
}

std::optional<std::string> gpu_trouble(const Sample& sample) {
  if (sample.gpus_silent && *sample.gpus_silent < std::chrono::seconds(1)) return "looking at the GPUs";
  if (sample.gpus_silent)
    return fmt::format("the driver has not answered for {} s",
                       std::chrono::duration_cast<std::chrono::seconds>(*sample.gpus_silent).count());
  if (!sample.gpus.gpus.empty()) return std::nullopt;
  return "no GPU" + (sample.gpus.explanation.empty() ? "" : ": " + sample.gpus.explanation);
}

}  // namespace muster::monitor
