#include "monitor/sampler.hpp"

#include <algorithm>

namespace muster::monitor {
namespace {

// What a job waits for names GPUs as the queue does; users know them by their numbers.
void name_by_numbers(std::vector<std::string>& lines, const GpuReport& report) {
  for (const GpuSample& gpu : report.gpus) {
    if (!gpu.uuid || gpu.uuid->empty()) continue;
    const std::string number = "GPU " + std::to_string(gpu.shown.value_or(gpu.index));
    for (std::string& line : lines)
      for (auto at = line.find(*gpu.uuid); at != std::string::npos; at = line.find(*gpu.uuid, at + number.size()))
        line.replace(at, gpu.uuid->size(), number);
  }
}

}  // namespace

Sampler::Sampler(std::optional<queue::StateFolder> queue, std::filesystem::path runs) : processes_(std::move(runs)) {
  if (queue) queue_.emplace(std::move(*queue));
}

Sample Sampler::take(const GpuReport& gpus, const Focus& focus, Time now) {
  Sample sample;
  sample.time = now;
  sample.gpus = gpus;
  if (queue_) {
    if (const auto problem = queue_->refresh(now)) sample.notes.push_back("the queue cannot be read: " + *problem);
    std::map<std::string, int> numbers;
    for (GpuSample& gpu : sample.gpus.gpus) {
      if (!gpu.uuid) continue;
      numbers[*gpu.uuid] = gpu.shown.value_or(gpu.index);
      const auto job = queue_->jobs_on_gpus().find(*gpu.uuid);
      if (job != queue_->jobs_on_gpus().end()) gpu.job = job->second;
    }
    queue_->add_jobs(sample, numbers);
  }
  processes_.add_jobs(sample, queue_ ? &*queue_ : nullptr);
  std::ranges::stable_sort(sample.jobs, {}, &JobSample::phase);
  sample.focus = focus.job;
  if (focus.job.empty() || focus.lines == 0) return sample;
  const auto job = std::ranges::find(sample.jobs, focus.job, &JobSample::id);
  auto lines = queue_ ? queue_->lines_of(focus.job, focus.lines) : std::nullopt;
  if (!lines) lines = processes_.lines_of(focus.job, focus.lines);
  if (!lines) return sample;
  sample.lines = std::move(*lines);
  if (job != sample.jobs.end() && job->phase == JobPhase::waiting) name_by_numbers(sample.lines, sample.gpus);
  return sample;
}

}  // namespace muster::monitor
