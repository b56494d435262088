// Whether ranks of muster-worker start, find each other and compute together.
#include <fmt/format.h>

#include "doctor/checks.hpp"

namespace muster::doctor {

Check check_collectives(const HostFacts& facts) {
  Verdict verdict("collectives");
  if (facts.collectives.empty()) verdict.pass("not tried");
  for (const CollectiveFacts& tried : facts.collectives) {
    if (tried.report) {
      verdict.pass(fmt::format("{} over {}: {} kinds right, all-reduce of 1 MiB in {:.2g} ms", tried.ranks,
                               tried.report->backend, tried.report->collectives, tried.report->milliseconds));
      continue;
    }
    const Error& error = tried.report.error();
    if (tried.not_built)
      verdict.warn(error.what, error.remedy);
    else
      verdict.fail(fmt::format("{}: {}", tried.ranks, error.what),
                   error.remedy.empty()
                       ? "muster doctor --json shows all of it; check memory and instruction sets above"
                       : error.remedy);
  }
  return verdict.take();
}

}  // namespace muster::doctor
