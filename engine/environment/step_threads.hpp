// Threads that steps of one environment wait in, so that a slow one keeps nothing else waiting.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace muster::environment {

class StepThreads {
 public:
  explicit StepThreads(std::size_t count);

  // In the order in which they came. What has not begun when these end does not begin.
  void add(std::function<void()> work);

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::jthread> threads_;  // the last member: they use all others
};

}  // namespace muster::environment
