// Threads that stay, so that a small matrix product can be shared out within microseconds. A team is used by one thread
// at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "kernels/vector_set.hpp"

namespace muster::kernels {

struct KernelTable;

class ThreadTeam {
 public:
  // threads: the caller's included, at least 1. set must be available.
  explicit ThreadTeam(int threads, VectorSet set = best_vector_set());
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }
  VectorSet vector_set() const { return set_; }
  const KernelTable& kernels() const { return *kernels_; }

  // work(begin, end) over ranges of at most grain that make up [0, count), on whichever thread is free; returns when
  // all are done. work must not throw and must not use the team. Which thread does what differs from call to call.
  template <class Work>
  void split(std::int64_t count, std::int64_t grain, Work&& work) {
    using Function = std::remove_reference_t<Work>;
    run({count, grain < 1 ? 1 : grain, &work,
         [](void* context, std::int64_t begin, std::int64_t end) { (*static_cast<Function*>(context))(begin, end); }});
  }

  // Memory for what one call shares between its threads; valid until the next call of this function.
  float* workspace(std::size_t floats);

 private:
  struct Job {
    std::int64_t count = 0;
    std::int64_t grain = 1;
    void* context = nullptr;
    void (*work)(void*, std::int64_t, std::int64_t) = nullptr;
  };

  void run(const Job& job);
  void take_shares();
  void serve();
  bool enter();

  VectorSet set_;
  const KernelTable* kernels_;
  Job job_;
  alignas(64) std::atomic<std::int64_t> next_{0};
  alignas(64) std::atomic<std::uint32_t> gate_{0};    // bit 0: the job is open; the rest: twice the workers inside
  alignas(64) std::atomic<std::uint32_t> number_{0};  // of jobs so far; what idle workers watch
  std::atomic<bool> ending_{false};
  std::vector<std::jthread> workers_;
  struct Free {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float[], Free> workspace_;
  std::size_t workspace_floats_ = 0;
};

}  // namespace muster::kernels
