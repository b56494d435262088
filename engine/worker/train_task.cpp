// Trains: joins the other ranks and runs the loop.
#include <ATen/Parallel.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "tensor/torch.hpp"
#include "train/trainer.hpp"
#include "worker/failure_boundary.hpp"
#include "worker/task.hpp"

namespace muster::worker {
namespace {

// Signals that mean: save, and leave.
std::atomic<bool> asked_to_leave = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void leave_when_asked() {
  struct sigaction action{};
  action.sa_handler = [](int) { asked_to_leave = true; };
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT, SIGHUP, SIGQUIT}) ::sigaction(signal, &action, nullptr);
}

}  // namespace

Result<void> run_task(const wire::TrainTask& task, Job& job) {
  const at::NoGradGuard own_gradients;
  // muster's own kernels have their own threads; two teams on the same cores would only wait for each other.
  if (job.device.is_cpu()) at::set_num_threads(1);
  leave_when_asked();
  const auto ranks = job.join_ranks();
  if (!ranks) return ranks.error();
  train::TrainerContext place{**ranks,
                            job.device,
                            job.assignment().threads,
                            job.assignment().seed,
                            [&job](const wire::EventBody& event) { job.channel.tell(event); },
                            [] { return asked_to_leave.load(); },
                            [&job](int first, int size, int stride) { return job.join_some(first, size, stride); }};
  std::unique_ptr<train::Trainer> trainer;
  const auto failed = catch_failures([&]() -> Result<void> {
    auto made = train::Trainer::make(task, std::move(place));
    if (!made) return made.error();
    trainer = std::move(*made);
    job.ready();
    if (const auto run = trainer->run(); !run) return run.error();
    return {};
  });
  // Before anything is let go of: threads of this rank may be waiting for ranks that wait for it.
  if (failed) {
    const int code = tell_failure(job.channel, *failed);
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return {};
}

}  // namespace muster::worker
