#include "monitor/gpu_watch.hpp"

#include <unistd.h>

namespace muster::monitor {
namespace {

void answer_questions(const std::function<GpuReport()>& look, int in, int out) {
  char question = 0;
  while (::read(in, &question, 1) == 1) {
    const std::string line = report_line(look());
    for (std::size_t written = 0; written < line.size();) {
      const ssize_t put = ::write(out, line.data() + written, line.size() - written);
      if (put < 0 && errno != EINTR) return;
      if (put > 0) written += static_cast<std::size_t>(put);
    }
  }
}

}  // namespace

Result<GpuWatch> GpuWatch::start(std::function<GpuReport()> look) {
  auto process = SideProcess::start([&look](int in, int out) { answer_questions(look, in, out); });
  if (!process) return process.error();
  return GpuWatch(std::move(*process), std::move(look));
}

void GpuWatch::ask(Clock::time_point now) {
  if (asked_) return;
  // A look that crashed the other process, as a damaged driver can: another one tries.
  if (process_.has_ended()) {
    process_.kill();  // if it has ended, this only collects its status
    if (auto again = SideProcess::start([this](int in, int out) { answer_questions(look_, in, out); }))
      process_ = std::move(*again);
  }
  if (process_.tell("?")) asked_ = now;
}

bool GpuWatch::receive() {
  bool came = false;
  for (const std::string& line : process_.receive()) {
    asked_.reset();
    auto report = parse_report(line);
    if (!report) continue;
    report_ = std::move(*report);
    answered_ = came = true;
  }
  if (process_.has_ended() && asked_) {
    asked_.reset();
    report_ = {{}, "the process that looks at the GPUs ended while it asked the driver; muster doctor looks closer"};
    answered_ = came = true;
  }
  return came;
}

std::chrono::milliseconds GpuWatch::silent_for(Clock::time_point now) const {
  return asked_ ? std::chrono::duration_cast<std::chrono::milliseconds>(now - *asked_) : std::chrono::milliseconds(0);
}

}  // namespace muster::monitor
