// Sums tensors over the ranks on a thread of its own, one after another, while this one goes on computing.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "communicate/communicator.hpp"
#include "parallel/stream_mark.hpp"

namespace muster::parallel {

class ReductionQueue {
 public:
  // ranks must outlive this; until wait() has returned nobody else may use them.
  explicit ReductionQueue(communicate::Communicator& ranks);
  ~ReductionQueue();

  // What was ordered on this thread's stream so far is in the tensor when it is summed.
  void add(const at::Tensor& tensor);
  // Everything added is summed, for what is ordered from now on. Throws what went wrong.
  void wait();

 private:
  struct Entry {
    at::Tensor tensor;
    StreamMark written;
  };
  void run(const std::stop_token& stop);
  void reduce(const Entry& entry);

  communicate::Communicator& ranks_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Entry> waiting_;
  bool busy_ = false;
  StreamMark summed_;  // after the last sum
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace muster::parallel
