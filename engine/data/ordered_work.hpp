// Many pieces of work by several threads, their results taken in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.hpp"

namespace muster::data {

// make(i) for every i below count, on threads of their own; take(i, made) in this thread, in the order of i. A thread
// that is done takes the next piece that nobody has. No more than a few results for each thread wait to be taken. The
// first error of take() ends it and is returned; what make() throws is thrown here.
template <class Make, class Take>
Result<void> work_in_order(std::size_t count, int threads, const Make& make, const Take& take) {
  using Made = decltype(make(std::size_t{}));
  const std::size_t workers = std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), count);
  const std::size_t window = 4 * workers;
  std::vector<std::optional<Made>> made(window);
  std::size_t next = 0, taken = 0;
  bool ended = false;
  std::exception_ptr failure;
  std::mutex gate;
  std::condition_variable changed;
  const auto work = [&] {
    std::unique_lock lock(gate);
    for (;;) {
      changed.wait(lock, [&] { return ended || next >= count || next < taken + window; });
      if (ended || next >= count) return;
      const std::size_t mine = next++;
      lock.unlock();
      std::optional<Made> result;
      std::exception_ptr thrown;
      try {
        result.emplace(make(mine));
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      made[mine % window] = std::move(result);
      if (thrown && !failure) failure = thrown;
      changed.notify_all();
    }
  };
  const auto end = [&] {
    const std::lock_guard lock(gate);
    ended = true;
    changed.notify_all();
  };
  std::vector<std::jthread> helpers;
  for (std::size_t i = 0; i < workers; ++i) helpers.emplace_back(work);
  for (std::size_t i = 0; i < count; ++i) {
    std::unique_lock lock(gate);
    changed.wait(lock, [&] { return failure || made[i % window].has_value(); });
    if (failure) break;
    Made result = std::move(*made[i % window]);
    made[i % window].reset();
    lock.unlock();
    if (auto done = take(i, std::move(result)); !done) {
      end();
      return done;
    }
    lock.lock();
    taken = i + 1;
    changed.notify_all();
  }
  end();
  helpers.clear();
  if (failure) std::rethrow_exception(failure);
  return {};
}

}  // namespace muster::data
