#include "schedule/gpu_pool.hpp"

#include <algorithm>

namespace muster::schedule {

GpuNumber GpuPool::add(std::string name, Time now) {
  const GpuNumber gpu{size()};
  all_.push_back({std::move(name), GpuState::free, now, "", {}});
  free_.emplace(now, gpu);
  ++usable_;
  return gpu;
}

void GpuPool::restore(const GpuStatus& saved) {
  const GpuNumber gpu = add(saved.name, saved.since);
  become(gpu, saved.state, saved.words, saved.since);
}

void GpuPool::become(GpuNumber gpu, GpuState state, std::string words, Time now) {
  GpuStatus& status = all_[static_cast<std::size_t>(number(gpu))];
  if (is_usable(gpu)) --usable_;
  if (status.state == GpuState::free) free_.erase({status.since, gpu});
  status.state = state;
  status.words = std::move(words);
  status.since = now;
  if (state == GpuState::free) free_.emplace(now, gpu);
  if (is_usable(gpu)) ++usable_;
}

void GpuPool::take(std::span<const GpuNumber> gpus, JobIndex job, Time now) {
  for (const GpuNumber gpu : gpus) {
    become(gpu, GpuState::taken, "", now);
    all_[static_cast<std::size_t>(number(gpu))].job = job;
  }
}

void GpuPool::give_back(std::span<const GpuNumber> gpus, Time now) {
  for (const GpuNumber gpu : gpus) {
    all_[static_cast<std::size_t>(number(gpu))].job.reset();
    if (at(gpu).state == GpuState::taken) become(gpu, GpuState::free, "", now);
  }
}

void GpuPool::set_aside(GpuNumber gpu, GpuState state, std::string words, Time now) {
  become(gpu, state, std::move(words), now);
}

void GpuPool::put_back(GpuNumber gpu, Time now) {
  become(gpu, at(gpu).job ? GpuState::taken : GpuState::free, "", now);
}

std::vector<GpuNumber> GpuPool::free_list(std::size_t most) const {
  std::vector<GpuNumber> list;
  list.reserve(std::min(most, free_.size()));
  for (auto gpu = free_.begin(); gpu != free_.end() && list.size() < most; ++gpu) list.push_back(gpu->second);
  return list;
}

}  // namespace muster::schedule
