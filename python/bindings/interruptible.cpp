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

// Note [Abandoned wait]
// Host::hold cannot be told to stop. So it runs in a thread that never touches the interpreter and owns all it uses;
// when the wait is interrupted, that thread is left alone. Its grant, if it still comes, is released in the same
// moment.
struct Wait {
  explicit Wait(const service::HostSources& sources) : host(sources) {}

  service::Host host;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> reason;  // what is being waited for, until it is told
  std::optional<Result<service::Grant>> outcome;
  std::exception_ptr bug;
};

void run(const std::shared_ptr<Wait>& wait, const gpu::SelectionRequest& request, service::LeaseWish wish) {
  wish.on_waiting = [&](const std::string& reason) {
    const std::lock_guard lock(wait->mutex);
    wait->reason = reason;
    wait->changed.notify_one();
  };
  std::optional<Result<service::Grant>> outcome;
  std::exception_ptr bug;
  try {
    outcome = wait->host.hold(request, wish, gpu::MaskForm::as_inherited);
  } catch (...) {
    bug = std::current_exception();
  }
  const std::lock_guard lock(wait->mutex);
  wait->outcome = std::move(outcome);
  wait->bug = bug;
  wait->changed.notify_one();
}

}  // namespace

Result<service::Grant> hold_interruptibly(const service::HostSources& sources, gpu::SelectionRequest request,
                                          service::LeaseWish wish,
                                          const std::function<void(const std::string&)>& on_waiting) {
  constexpr std::chrono::milliseconds between_signal_checks(50);
  const auto wait = std::make_shared<Wait>(sources);
  std::thread([wait, request = std::move(request), wish = std::move(wish)] { run(wait, request, wish); }).detach();
  while (true) {
    std::optional<std::string> reason;
    {
      const nanobind::gil_scoped_release released;
      std::unique_lock lock(wait->mutex);
      wait->changed.wait_for(lock, between_signal_checks, [&] { return wait->outcome || wait->bug || wait->reason; });
      if (wait->bug) std::rethrow_exception(wait->bug);
      if (wait->outcome) return std::move(*wait->outcome);
      reason = std::exchange(wait->reason, std::nullopt);
    }
    if (reason && on_waiting) on_waiting(*reason);
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
}

}  // namespace muster::python
