#include "kernels/thread_team.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "kernels/kernel_table.hpp"

namespace muster::kernels {
namespace {

constexpr std::uint32_t open = 1;
constexpr std::uint32_t one_inside = 2;
// Long enough to bridge the pause between two operations of a forward pass, short enough to leave the core to others.
constexpr int spins = 4000;
constexpr std::align_val_t line{64};

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void ThreadTeam::Free::operator()(float* memory) const { ::operator delete[](memory, line); }

ThreadTeam::ThreadTeam(int threads, VectorSet set) : set_(set), kernels_(&kernel_table(set)) {
  if (threads < 1) throw std::invalid_argument("a thread team has at least one thread");
  if (!is_available(set)) throw std::invalid_argument("this CPU lacks the vector set asked for");
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { serve(); });
}

ThreadTeam::~ThreadTeam() {
  ending_.store(true, std::memory_order_relaxed);
  number_.fetch_add(1, std::memory_order_release);
  number_.notify_all();
}

float* ThreadTeam::workspace(std::size_t floats) {
  if (floats > workspace_floats_) {
    workspace_.reset();
    workspace_.reset(static_cast<float*>(::operator new[](floats * sizeof(float), line)));
    workspace_floats_ = floats;
  }
  return workspace_.get();
}

// Note [Gate]: a worker that sleeps must not delay a job that the others can do. So nobody waits for workers to come;
// the caller closes the gate when no share is left, and waits only for those that are inside.
void ThreadTeam::run(const Job& job) {
  if (job.count <= 0) return;
  if (workers_.empty() || job.count <= job.grain) {
    for (std::int64_t begin = 0; begin < job.count; begin += job.grain) {
      job.work(job.context, begin, std::min(begin + job.grain, job.count));
    }
    return;
  }
  job_ = job;
  next_.store(0, std::memory_order_relaxed);
  gate_.store(open, std::memory_order_release);
  number_.fetch_add(1, std::memory_order_release);
  number_.notify_all();
  take_shares();
  gate_.fetch_and(~open, std::memory_order_acq_rel);
  for (int i = 0; gate_.load(std::memory_order_acquire) != 0; ++i) {
    if (i < spins) {
      pause_briefly();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadTeam::take_shares() {
  for (;;) {
    const std::int64_t begin = next_.fetch_add(job_.grain, std::memory_order_relaxed);
    if (begin >= job_.count) return;
    job_.work(job_.context, begin, std::min(begin + job_.grain, job_.count));
  }
}

bool ThreadTeam::enter() {
  std::uint32_t seen = gate_.load(std::memory_order_relaxed);
  while ((seen & open) != 0) {
    if (gate_.compare_exchange_weak(seen, seen + one_inside, std::memory_order_acquire, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void ThreadTeam::serve() {
  std::uint32_t known = 0;
  for (;;) {
    for (int i = 0; i < spins && number_.load(std::memory_order_acquire) == known; ++i) pause_briefly();
    number_.wait(known, std::memory_order_acquire);
    known = number_.load(std::memory_order_acquire);
    if (ending_.load(std::memory_order_relaxed)) return;
    if (!enter()) continue;
    take_shares();
    gate_.fetch_sub(one_inside, std::memory_order_release);
  }
}

}  // namespace muster::kernels
