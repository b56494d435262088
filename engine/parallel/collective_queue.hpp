// Exchanges between ranks on a thread of its own, one after another, while this one goes on computing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/stream_mark.hpp"

namespace muster::parallel {

// Seconds of the device.
struct CommunicationTime {
  double busy = 0;     // exchanging
  double exposed = 0;  // of them, while what computes waited
};

class CollectiveQueue {
 public:
  // Numbers of what was added, from 1.
  using Ticket = std::uint64_t;

  // device: whose tensors are exchanged.
  explicit CollectiveQueue(at::Device device);
  ~CollectiveQueue();

  // work runs later, on another thread and, on a GPU, another stream: after what was ordered on this thread's stream so
  // far. While it has not been waited for, nobody else may use the ranks it uses.
  Ticket add(std::function<void()> work);
  // What is ordered on this thread's stream from now on comes after that work. Throws what went wrong.
  void wait(Ticket ticket);
  // After everything that was added.
  void wait() { wait(added_); }
  // Whether times are kept of what follows; by default they are.
  void keep_times(bool kept) { keeps_times_ = kept; }
  // Times since the last call. Only after everything has been waited for with wait(); waits for the device.
  CommunicationTime take_times();

 private:
  struct Entry {
    std::function<void()> work;
    StreamMark before;
  };
  struct Span {
    TimeMark begin, end;
  };
  void run(const std::stop_token& stop);
  void carry_out(Entry entry);

  at::Device device_;
  Ticket added_ = 0;  // of the thread that adds
  std::atomic<bool> keeps_times_ = true;
  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::deque<Entry> waiting_;
  Ticket done_ = 0;
  std::deque<StreamMark> after_;  // of the works up to done_, the last ones
  std::vector<Span> busy_;
  std::vector<Span> exposed_;
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace muster::parallel
