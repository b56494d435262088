#include "environment/step_threads.hpp"

namespace muster::environment {

StepThreads::StepThreads(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
}

void StepThreads::add(std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void StepThreads::run(const std::stop_token& stop) {
  while (true) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return !waiting_.empty(); })) return;
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
  }
}

}  // namespace muster::environment
