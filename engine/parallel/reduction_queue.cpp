#include "parallel/reduction_queue.hpp"

namespace muster::parallel {

ReductionQueue::ReductionQueue(communicate::Communicator& ranks)
    : ranks_(ranks), thread_([this](const std::stop_token& stop) { run(stop); }) {}

ReductionQueue::~ReductionQueue() {
  thread_.request_stop();
  changed_.notify_all();
}

void ReductionQueue::add(const at::Tensor& tensor) {
  Entry entry{tensor, StreamMark::of_current_stream(tensor.device())};
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(entry));
  }
  changed_.notify_all();
}

void ReductionQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (waiting_.empty() && !busy_) || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  summed_.order_current_stream();
}

void ReductionQueue::reduce(const Entry& entry) {
  const SideStream stream(entry.tensor.device());
  entry.written.order_current_stream();
  ranks_.all_reduce(entry.tensor);
  StreamMark mark = StreamMark::of_current_stream(entry.tensor.device());
  const std::lock_guard lock(mutex_);
  summed_ = std::move(mark);
}

void ReductionQueue::run(const std::stop_token& stop) {
  const at::NoGradGuard forward_only;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, stop, [this] { return !waiting_.empty(); });
    if (stop.stop_requested()) return;
    const Entry entry = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      reduce(entry);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    if (failure) failure_ = failure;
    changed_.notify_all();
    if (failure_) return;
  }
}

}  // namespace muster::parallel
