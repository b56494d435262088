// One block of a CUDA kernel on the CPU, so that a test can run the kernel's own source where there is no GPU.
//
// The threads of a block are fibers of one thread of the host: each runs until it waits for others, in ascending or in
// descending order. What a kernel does after a barrier that it lacks differs between the two orders, so a test that
// runs both would see it. Blocks run one after the other. Nothing is said about speed, about memory that several
// blocks write, or about what a real GPU's memory reorders.
#pragma once

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace cuda_on_cpu {

constexpr unsigned warp_lanes = 32;

enum class Order { ascending, descending };

class Threads {
 public:
  static Threads& current() {
    static Threads threads;
    return threads;
  }

  Order order = Order::ascending;
  int multiprocessors = 4;  // what kernels are told
  int block_memory = 227 * 1024;
  unsigned index = 0;       // of the thread that runs
  unsigned count = 0;
  std::byte* shared_memory = nullptr;

  // Runs body once for each thread of a block. Throws std::logic_error where some wait for others that never come.
  void run(unsigned threads, std::size_t shared_bytes, std::function<void()> body) {
    // A launch gives memory with anything in it: NaN as float, and no small number as whole ones.
    std::vector<std::byte> shared(shared_bytes + alignment, std::byte{0xFF});
    shared_memory = shared.data() + (alignment - reinterpret_cast<std::uintptr_t>(shared.data()) % alignment);
    count = threads;
    body_ = std::move(body);
    block_ = {};
    warps_.assign((threads + warp_lanes - 1) / warp_lanes, {});
    for (unsigned i = 0; i < threads; ++i) begin(i);
    for (unsigned left = threads; left > 0;) {
      const std::uint64_t before = progress_;
      for (unsigned i = 0; i < threads; ++i) {
        Fiber& fiber = fibers_[order == Order::ascending ? i : threads - 1 - i];
        if (fiber.ended) continue;
        index = fiber.index;
        swapcontext(&scheduler_, &fiber.context);
        left -= fiber.ended ? 1 : 0;
      }
      if (progress_ == before) throw std::logic_error("threads of a block wait for others that never come");
    }
  }

  void wait_for_block() { wait(block_, count); }

  // What each lane of the warp gives. The answer is valid until the one after the next call.
  template <class Value>
  const std::array<Value, warp_lanes>& gather(const Value& value) {
    static_assert(sizeof(Value) <= most_bytes);
    if (count % warp_lanes != 0) throw std::logic_error("a warp whose lanes are not all there");
    Warp& warp = warps_[index / warp_lanes];
    auto& fiber = fibers_[index];
    std::byte* const slots = warp.slots[fiber.gathered++ % 2].data();
    std::memcpy(slots + index % warp_lanes * sizeof(Value), &value, sizeof(Value));
    wait(warp.lanes, warp_lanes);
    return *reinterpret_cast<const std::array<Value, warp_lanes>*>(slots);
  }

 private:
  static constexpr std::size_t alignment = 128;
  static constexpr std::size_t most_bytes = 32;
  static constexpr std::size_t stack_bytes = 64 * 1024;

  struct Gathering {
    unsigned arrived = 0;
    std::uint64_t round = 0;
  };
  struct Warp {
    Gathering lanes;
    alignas(16) std::array<std::array<std::byte, warp_lanes * most_bytes>, 2> slots;
  };
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(stack_bytes);
    unsigned index = 0;
    unsigned gathered = 0;
    bool ended = false;
  };

  void begin(unsigned i) {
    if (fibers_.size() <= i) fibers_.emplace_back();
    Fiber& fiber = fibers_[i];
    fiber.index = i;
    fiber.gathered = 0;
    fiber.ended = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, &Threads::enter, 0);
  }
  static void enter() {
    Threads& threads = current();
    threads.body_();
    ++threads.progress_;
    threads.fibers_[threads.index].ended = true;
  }

  void wait(Gathering& gathering, unsigned members) {
    if (++gathering.arrived == members) {
      gathering.arrived = 0;
      ++gathering.round;
      ++progress_;
      return;
    }
    const std::uint64_t round = gathering.round;
    const unsigned own = index;
    while (gathering.round == round) swapcontext(&fibers_[own].context, &scheduler_);
  }

  std::function<void()> body_;
  std::deque<Fiber> fibers_;  // which stay where they are
  std::vector<Warp> warps_;
  Gathering block_;
  ucontext_t scheduler_{};
  std::uint64_t progress_ = 0;
};

}  // namespace cuda_on_cpu
