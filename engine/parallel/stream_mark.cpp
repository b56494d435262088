#include "parallel/stream_mark.hpp"

#include <chrono>

#ifdef MUSTER_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>
#endif

namespace muster::parallel {

struct TimeMark::Point {
  std::chrono::steady_clock::time_point clock;
#ifdef MUSTER_CUDA
  std::optional<at::cuda::CUDAEvent> event;
#endif
};

TimeMark TimeMark::now(at::Device device) {
  TimeMark mark;
  mark.point_ = std::make_shared<Point>();
  mark.point_->clock = std::chrono::steady_clock::now();
#ifdef MUSTER_CUDA
  if (device.is_cuda()) {
    mark.point_->event.emplace(cudaEventDefault);
    mark.point_->event->record(c10::cuda::getCurrentCUDAStream(device.index()));
  }
#else
  static_cast<void>(device);
#endif
  return mark;
}

double TimeMark::seconds_until(const TimeMark& later) const {
#ifdef MUSTER_CUDA
  if (point_->event && later.point_->event) {
    point_->event->synchronize();
    later.point_->event->synchronize();
    return static_cast<double>(point_->event->elapsed_time(*later.point_->event)) * 1e-3;
  }
#endif
  return std::chrono::duration<double>(later.point_->clock - point_->clock).count();
}

#ifdef MUSTER_CUDA

struct StreamMark::Point {
  at::Device device;
  at::cuda::CUDAEvent event;
};

StreamMark StreamMark::of_current_stream(at::Device device) {
  StreamMark mark;
  if (!device.is_cuda()) return mark;
  mark.point_ = std::make_shared<Point>(Point{device, {}});
  mark.point_->event.record(c10::cuda::getCurrentCUDAStream(device.index()));
  return mark;
}

void StreamMark::order_current_stream() const {
  if (point_) point_->event.block(c10::cuda::getCurrentCUDAStream(point_->device.index()));
}

void StreamMark::wait() const {
  if (point_) point_->event.synchronize();
}

struct SideStream::Guard {
  explicit Guard(at::Device device) : stream(c10::cuda::getStreamFromPool(false, device.index())) {}
  c10::cuda::CUDAStreamGuard stream;
};

SideStream::SideStream(at::Device device) {
  if (device.is_cuda()) guard_ = std::make_unique<Guard>(device);
}

#else

struct StreamMark::Point {};
StreamMark StreamMark::of_current_stream(at::Device) { return {}; }
void StreamMark::order_current_stream() const {}
void StreamMark::wait() const {}
struct SideStream::Guard {};
SideStream::SideStream(at::Device) {}

#endif

StreamMark::StreamMark() = default;
SideStream::~SideStream() = default;

}  // namespace muster::parallel
