#include "service/live_view.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "gpu/health.hpp"
#include "service/queue.hpp"
#include "system/files.hpp"
#include "system/process_handle.hpp"

namespace muster::service {
namespace {

using monitor::GpuReport;
using monitor::GpuSample;

// After this long a driver is reported as silent.
constexpr std::chrono::seconds patience(3);

std::optional<monitor::GpuHolder> holder_in(const host::HostView& view, const std::optional<gpu::GpuUuid>& uuid) {
  const auto found = uuid ? view.holders.find(uuid->text) : view.holders.end();
  if (found == view.holders.end()) return std::nullopt;
  const lease::Holder& holder = found->second;
  return monitor::GpuHolder{holder.pid, holder.user, holder.command, holder.since};
}

std::optional<int> position_in(const host::HostView& view, const gpu::Gpu& gpu, std::optional<std::size_t> instance) {
  for (std::size_t i = 0; i < view.visible.size(); ++i)
    if (view.visible[i].gpu == gpu.facts.index && view.visible[i].mig == instance) return static_cast<int>(i);
  return std::nullopt;
}

GpuSample whole_gpu(const host::HostView& view, const gpu::Gpu& gpu) {
  GpuSample sample;
  sample.index = gpu::number(gpu.facts.index);
  sample.shown = position_in(view, gpu, std::nullopt);
  if (gpu.facts.uuid) sample.uuid = gpu.facts.uuid->text;
  sample.name = gpu.facts.name;
  sample.memory_total = gpu.facts.memory_total;
  sample.memory_used = gpu.reading.memory_used;
  sample.utilization = gpu.reading.utilization;
  sample.temperature = gpu.reading.temperature;
  sample.power = gpu.reading.power;
  sample.power_limit = gpu.reading.power_limit;
  sample.sickness = gpu::sickness(gpu);
  sample.holder = holder_in(view, gpu.facts.uuid);
  for (const gpu::GpuProcess& process : gpu.processes)
    sample.users.push_back({process.pid, process.user, process.memory});
  return sample;
}

// A slice of a GPU has its own memory and holder; only the whole GPU reports how busy it is.
GpuSample slice(const host::HostView& view, const gpu::Gpu& gpu, std::size_t position) {
  const gpu::MigInstance& instance = gpu.facts.mig_instances[position];
  GpuSample sample;
  sample.index = gpu::number(gpu.facts.index);
  sample.shown = position_in(view, gpu, position);
  sample.uuid = instance.uuid.text;
  sample.name = instance.name;
  sample.memory_total = instance.memory_total;
  sample.temperature = gpu.reading.temperature;
  sample.sickness = gpu::sickness(gpu);
  sample.holder = holder_in(view, instance.uuid);
  return sample;
}

GpuReport report_of(const Result<host::HostView>& view) {
  if (!view) return {{}, view.error().what};
  GpuReport report;
  report.explanation = view->snapshot.explanation;
  for (const gpu::Gpu& gpu : view->snapshot.gpus) {
    if (!gpu.facts.mig_mode || gpu.facts.mig_instances.empty()) report.gpus.push_back(whole_gpu(*view, gpu));
    for (std::size_t i = 0; i < gpu.facts.mig_instances.size(); ++i) report.gpus.push_back(slice(*view, gpu, i));
  }
  return report;
}

void write_line(int out, std::string text) {
  std::ranges::replace(text, '\n', ' ');
  text += '\n';
  [[maybe_unused]] const ssize_t written = ::write(out, text.data(), text.size());  // the reader may be gone
}

void stop_in_queue(const host::HostSources& sources, const std::string& id, int out) {
  auto queue = Queue::open(sources);
  const auto done = queue ? queue->stop({schedule::JobId{id}}) : Result<void>(queue.error());
  write_line(out, done ? "" : to_string(done.error()));
}

std::string terminate(const monitor::JobSample& job) {
  const FileDescriptor process = open_process(job.process->pid);
  const auto status = process ? read_process_status(job.process->pid) : std::nullopt;
  if (!status || status->identity != *job.process) return fmt::format("{} has ended", job.id);
  if (signal_process(process, SIGTERM)) return fmt::format("{} was asked to end (SIGTERM)", job.id);
  return fmt::format("{} cannot be stopped: {}", job.id, system_reason());
}

}  // namespace

Result<LiveView> LiveView::open(const host::HostSources& sources, std::filesystem::path runs) {
  auto gpus = monitor::GpuWatch::start([sources, host = std::shared_ptr<host::Host>()]() mutable {
    if (!host) host = std::make_shared<host::Host>(sources);
    return report_of(host->look());
  });
  if (!gpus) return gpus.error();
  std::optional<queue::StateFolder> folder;
  std::vector<std::string> notes;
  if (auto usual = queue::StateFolder::usual())
    folder = std::move(*usual);
  else
    notes.push_back("no queue: " + usual.error().what);
  return LiveView(sources, std::move(*gpus), monitor::Sampler(std::move(folder), std::move(runs)), std::move(notes));
}

std::vector<int> LiveView::descriptors() const {
  std::vector<int> open;
  if (gpus_.descriptor() >= 0) open.push_back(gpus_.descriptor());
  for (const Stopping& stopping : stopping_) open.push_back(stopping.process.descriptor());
  return open;
}

bool LiveView::receive() {
  std::erase_if(stopping_, [this](Stopping& stopping) {
    const auto lines = stopping.process.receive();
    if (lines.empty() && !stopping.process.has_ended()) return false;
    if (lines.empty())
      outcomes_.push_back(fmt::format("job {} may not have been asked to end: try again", stopping.job));
    else
      outcomes_.push_back(lines.front().empty() ? fmt::format("job {} was asked to end", stopping.job) : lines.front());
    return true;
  });
  return gpus_.receive();
}

monitor::Sample LiveView::sample(const monitor::Focus& focus) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  monitor::Sample sample = sampler_.take(gpus_.report(), focus, now);
  const auto silent = gpus_.silent_for(std::chrono::steady_clock::now());
  if (silent >= patience || !gpus_.has_answered()) sample.gpus_silent = silent;
  sample.notes.insert(sample.notes.begin(), notes_.begin(), notes_.end());
  return sample;
}

void LiveView::stop(const monitor::JobSample& job) {
  if (job.kind == monitor::JobKind::process) {
    outcomes_.push_back(job.process ? terminate(job) : fmt::format("{} is not a process of this machine", job.id));
    return;
  }
  // In a separate process: submitting waits for other processes that submit.
  auto process = monitor::SideProcess::start([this, id = job.id](int, int out) { stop_in_queue(sources_, id, out); });
  if (process)
    stopping_.push_back({job.id, std::move(*process)});
  else
    outcomes_.push_back(process.error().what);
}

std::vector<std::string> LiveView::take_outcomes() { return std::exchange(outcomes_, {}); }

}  // namespace muster::service
