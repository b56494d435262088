// The newest look at the GPUs. Another process does the looking, so that a driver which does not answer
// blocks nothing here.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "monitor/sample.hpp"
#include "monitor/side_process.hpp"

namespace muster::monitor {

class GpuWatch {
 public:
  // look: one look, called in the other process for each request.
  static Result<GpuWatch> start(std::function<GpuReport()> look);
  GpuWatch(GpuWatch&&) noexcept = default;
  GpuWatch& operator=(GpuWatch&&) = delete;
  ~GpuWatch() { process_.kill(); }

  using Clock = std::chrono::steady_clock;
  // Asks for another look, unless one is still pending.
  void ask(Clock::time_point now);
  // Whether an answer has arrived.
  bool receive();
  // Readable when there is something to receive; none if the other process is gone.
  int descriptor() const { return process_.descriptor(); }

  bool has_answered() const { return answered_; }
  bool is_asked() const { return asked_.has_value(); }
  // The newest; empty before the first.
  const GpuReport& report() const { return report_; }
  // How long the answer to the last request has been missing.
  std::chrono::milliseconds silent_for(Clock::time_point now) const;

 private:
  GpuWatch(SideProcess process, std::function<GpuReport()> look)
      : process_(std::move(process)), look_(std::move(look)) {}

  SideProcess process_;
  std::function<GpuReport()> look_;
  GpuReport report_;
  bool answered_ = false;
  std::optional<Clock::time_point> asked_;
};

}  // namespace muster::monitor
