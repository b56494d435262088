// What a rank sends to one other, without waiting until it is received: a thread sends it, in order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "communicate/communicator.hpp"

namespace muster::generate {

class Outbox {
 public:
  // ranks must outlive this. keep_alive: sent when nothing else was for this long, so that the other rank's wait for
  // the next does not time out; undefined: nothing.
  Outbox(communicate::Communicator& ranks, int to, at::Tensor keep_alive, std::chrono::milliseconds silence);
  // What has not been sent is dropped, and the ranks' waits are ended: see drain().
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // The tensor lies in host memory, and nobody writes to it any more. A failure to send an earlier one is thrown here.
  void post(at::Tensor tensor);
  // Waits until all is sent; nothing may be posted afterwards.
  void drain();
  // What sending failed with, where it did.
  void throw_failure() const;

 private:
  void run();

  communicate::Communicator& ranks_;
  int to_;
  at::Tensor keep_alive_;
  std::chrono::milliseconds silence_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<at::Tensor> letters_;
  bool closed_ = false;
  bool abandoned_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace muster::generate
