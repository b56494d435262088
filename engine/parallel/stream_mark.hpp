// Order between threads that give work to one GPU. On a CPU everything is done when it returns, and these do nothing.
#pragma once

#include <memory>

#include "tensor/torch.hpp"

namespace muster::parallel {

// A point in what a thread has ordered from a device.
class StreamMark {
 public:
  StreamMark();
  static StreamMark of_current_stream(at::Device device);
  // What this thread orders from now on comes after that point.
  void order_current_stream() const;
  // Returns when the device has reached it.
  void wait() const;

 private:
  struct Point;
  std::shared_ptr<Point> point_;  // absent: nothing to wait for
};

// A moment in what a thread has ordered from a device: when the device reaches it. On a CPU, a moment of the clock.
class TimeMark {
 public:
  static TimeMark now(at::Device device);
  // Waits until the device has reached both.
  double seconds_until(const TimeMark& later) const;

 private:
  struct Point;
  std::shared_ptr<Point> point_;
};

// While it lives, this thread orders work on a stream of its own of that device.
class SideStream {
 public:
  explicit SideStream(at::Device device);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

}  // namespace muster::parallel
