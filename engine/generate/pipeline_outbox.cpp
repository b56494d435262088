#include "generate/pipeline_outbox.hpp"

#include <utility>

namespace muster::generate {

Outbox::Outbox(communicate::Communicator& ranks, int to, at::Tensor keep_alive, std::chrono::milliseconds silence)
    : ranks_(ranks), to_(to), keep_alive_(std::move(keep_alive)), silence_(silence), thread_([this] { run(); }) {}

Outbox::~Outbox() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  changed_.notify_all();
  ranks_.abort("this rank ends before its work does");
  thread_.join();
}

void Outbox::post(at::Tensor tensor) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    letters_.push_back(std::move(tensor));
  }
  changed_.notify_all();
}

void Outbox::drain() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  thread_.join();
  throw_failure();
}

void Outbox::throw_failure() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Outbox::run() try {
  while (true) {
    at::Tensor letter;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, silence_, [this] { return !letters_.empty() || closed_ || abandoned_; });
      if (abandoned_) return;
      if (!letters_.empty()) {
        letter = std::move(letters_.front());
        letters_.pop_front();
      } else if (closed_) {
        return;
      } else {
        letter = keep_alive_;
      }
    }
    if (letter.defined()) ranks_.send(letter, to_);
  }
} catch (const std::exception& problem) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  ranks_.abort(problem.what());  // this rank may wait for another meanwhile, which waits for what was not sent
}

}  // namespace muster::generate
