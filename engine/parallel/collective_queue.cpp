#include "parallel/collective_queue.hpp"

#include <optional>
#include <utility>

namespace muster::parallel {

CollectiveQueue::CollectiveQueue(at::Device device)
    : device_(device), thread_([this](const std::stop_token& stop) { run(stop); }) {}

CollectiveQueue::~CollectiveQueue() {
  thread_.request_stop();
  changed_.notify_all();
}

CollectiveQueue::Ticket CollectiveQueue::add(std::function<void()> work) {
  Entry entry{std::move(work), StreamMark::of_current_stream(device_)};
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(entry));
  }
  changed_.notify_all();
  return ++added_;
}

void CollectiveQueue::wait(Ticket ticket) {
  const bool timed = keeps_times_;
  std::optional<TimeMark> began;
  if (timed) began = TimeMark::now(device_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  // Works follow each other on one stream: waiting for one waits for those before it.
  while (done_ - after_.size() + 1 < ticket && !after_.empty()) after_.pop_front();
  if (done_ - after_.size() + 1 == ticket && !after_.empty()) after_.front().order_current_stream();
  if (timed) exposed_.push_back({*began, TimeMark::now(device_)});
}

CommunicationTime CollectiveQueue::take_times() {
  std::vector<Span> busy, exposed;
  {
    const std::lock_guard lock(mutex_);
    busy.swap(busy_);
    exposed.swap(exposed_);
  }
  CommunicationTime times;
  for (const Span& span : busy) times.busy += span.begin.seconds_until(span.end);
  for (const Span& span : exposed) times.exposed += span.begin.seconds_until(span.end);
  return times;
}

void CollectiveQueue::carry_out(Entry entry) {
  entry.before.order_current_stream();
  std::optional<Span> time;
  if (keeps_times_) time = {TimeMark::now(device_), {}};
  entry.work();
  if (time) time->end = TimeMark::now(device_);
  StreamMark mark = StreamMark::of_current_stream(device_);
  entry.work = nullptr;  // its tensors are released before it is reported as done
  const std::lock_guard lock(mutex_);
  ++done_;
  after_.push_back(std::move(mark));
  if (time) busy_.push_back(std::move(*time));
}

void CollectiveQueue::run(const std::stop_token& stop) {
  const at::NoGradGuard forward_only;
  std::optional<SideStream> beside;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, stop, [this] { return !waiting_.empty(); });
    if (stop.stop_requested()) return;
    Entry entry = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      if (!beside) beside.emplace(device_);
      carry_out(std::move(entry));
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    changed_.notify_all();
    if (failure_) return;
  }
}

}  // namespace muster::parallel
