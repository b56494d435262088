// Whether each spawned process saw exactly the GPU it was given.
#include <fmt/format.h>

#include "base/text.hpp"
#include "doctor/checks.hpp"

namespace muster::doctor {
namespace {

std::string quoted(const std::optional<std::string>& value) {
  return value ? fmt::format("\"{}\"", *value) : "not set";
}

std::string list(const std::vector<std::string>& names) { return names.empty() ? "no GPU" : join(names, ", "); }

// What is wrong with a report, or nothing.
std::optional<std::string> difference(const WorkerFacts& worker, const WorkerReport& report) {
  if (report.mask != worker.mask)
    return fmt::format("was given CUDA_VISIBLE_DEVICES=\"{}\" and has it {}", worker.mask, quoted(report.mask));
  if (report.device_order != "PCI_BUS_ID")
    return fmt::format("was given CUDA_DEVICE_ORDER=\"PCI_BUS_ID\" and has it {}", quoted(report.device_order));
  if (!report.visible) {
    // Without a mask that names anything there is nothing to see; why the GPUs are not known is for another check.
    if (!worker.gpu) return std::nullopt;
    return fmt::format("cannot tell what it sees: {}", report.problem.value_or("no reason given"));
  }
  if (*report.visible != worker.expected)
    return fmt::format("was given {} and sees {}", list(worker.expected), list(*report.visible));
  return std::nullopt;
}

constexpr const char* mask_remedy =
    "look for what changes the environment of every process: a wrapper in the shell, LD_PRELOAD, a container's or the "
    "scheduler's prolog; env | grep CUDA";

}  // namespace

Check check_workers(const HostFacts& facts) {
  Verdict verdict("workers");
  int gpu_workers = 0, cpu_workers = 0;
  for (const WorkerFacts& worker : facts.workers) {
    const std::string name = worker.gpu ? fmt::format("the worker for GPU {}", *worker.gpu) : "a CPU worker";
    if (!worker.report) {
      const Error& error = worker.report.error();
      verdict.fail(fmt::format("{}: {}", name, error.what), error.remedy.empty() ? mask_remedy : error.remedy);
    } else if (const auto wrong = difference(worker, *worker.report)) {
      verdict.fail(fmt::format("{} (pid {}) {}", name, worker.report->pid, *wrong), mask_remedy);
    } else {
      ++(worker.gpu ? gpu_workers : cpu_workers);
    }
  }
  if (gpu_workers > 0)
    verdict.pass(fmt::format("{} started, {} its own GPU", gpu_workers, gpu_workers == 1 ? "it saw" : "each saw"));
  if (cpu_workers > 0) verdict.pass(fmt::format("{} CPU workers started, none saw a GPU", cpu_workers));
  if (facts.workers.empty())
    verdict.fail("none was started", "report this as a bug of muster, with the output of muster doctor --json");
  return verdict.take();
}

}  // namespace muster::doctor
