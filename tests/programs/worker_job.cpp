// Runs a collective check as a job of muster-worker's, and prints every event as it comes: worker_job RANKS ELEMENTS
// REPEATS TIMEOUT_MS [GPUS]. The error of a failed job goes to standard error.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "job/worker_run.hpp"

namespace {

class Printer : public muster::job::WorkerListener {
 public:
  muster::Result<void> on_event(const muster::wire::Event& event) override {
    fmt::print("{}\n", print(event));
    std::fflush(stdout);
    return {};
  }
};

}  // namespace

int main(int count, char** words) {
  using namespace muster;
  if (count < 5) return 64;
  job::WorkerJob job;
  job.name = "check";
  job.ranks = std::atoi(words[1]);
  job.assignment.task = wire::CollectiveCheck{std::atoll(words[2]), std::atoi(words[3])};
  job.assignment.timeout = std::chrono::milliseconds(std::atoi(words[4]));
  if (count > 5) job.selection.emplace().count = std::atoi(words[5]);
  host::Host host(host::sources_from_environment());
  Printer printer;
  const auto code =
      job::run_workers(host, job, printer, [](const std::string& text) { fmt::print(stderr, "note: {}\n", text); });
  if (code) return *code;
  fmt::print(stderr, "{}\n", to_string(code.error()));
  return exit_code(code.error().kind);
}
