#include "interruptible.hpp"

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace muster::python {
namespace {

// What the waiting thread, which never touches the interpreter, tells the calling one.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> reason;  // what is being waited for, until it is told
  std::optional<Result<host::Grant>> outcome;
  std::exception_ptr bug;
};

void run(Progress& progress, host::Host& host, const gpu::SelectionRequest& request,
         const host::LeaseRequest& lease_request) {
  std::optional<Result<host::Grant>> outcome;
  std::exception_ptr bug;
  try {
    outcome = host.hold(request, lease_request, gpu::MaskForm::as_inherited);
  } catch (...) {
    bug = std::current_exception();
  }
  const std::lock_guard lock(progress.mutex);
  progress.outcome = std::move(outcome);
  progress.bug = bug;
  progress.changed.notify_one();
}

}  // namespace

Result<host::Grant> hold_interruptibly(const host::HostSources& sources, gpu::SelectionRequest request,
                                          host::LeaseRequest lease_request,
                                          const std::function<void(const std::string&)>& on_waiting) {
  constexpr std::chrono::milliseconds between_signal_checks(50);
  Progress progress;
  host::Host host(sources);
  lease_request.on_waiting = [&](const std::string& reason) {
    const std::lock_guard lock(progress.mutex);
    progress.reason = reason;
    progress.changed.notify_one();
  };
  // An exception that leaves this function stops the thread and joins it: its place in the line is given up.
  const std::jthread thread([&](std::stop_token stop) {
    lease_request.stop = std::move(stop);
    run(progress, host, request, lease_request);
  });
  while (true) {
    std::optional<std::string> reason;
    {
      const nanobind::gil_scoped_release released;
      std::unique_lock lock(progress.mutex);
      progress.changed.wait_for(lock, between_signal_checks,
                                [&] { return progress.outcome || progress.bug || progress.reason; });
      if (progress.bug) std::rethrow_exception(progress.bug);
      if (progress.outcome) return std::move(*progress.outcome);
      reason = std::exchange(progress.reason, std::nullopt);
    }
    if (reason && on_waiting) on_waiting(*reason);
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
}

}  // namespace muster::python
