// Whether ranks of muster-worker answer prompts, and all give the same answers.
#include <fmt/format.h>

#include "doctor/checks.hpp"

namespace muster::doctor {
namespace {

constexpr const char* same_everywhere =
    "report this with the output of muster doctor --json: the same prompts must have the same answers on any rank";

}  // namespace

Check check_generation(const HostFacts& facts) {
  Verdict verdict("generation");
  if (!facts.generation) {
    verdict.pass("not tried");
  } else if (!*facts.generation) {
    const Error& error = facts.generation->error();
    verdict.fail(error.what,
                 error.remedy.empty() ? "muster doctor --json shows all of it; check memory above" : error.remedy);
  } else if (const GenerationReport& report = **facts.generation; report.same) {
    verdict.pass(fmt::format("{} CPU ranks: {} tokens, the same bytes as on one rank", report.ranks, report.tokens));
  } else {
    verdict.fail(
        fmt::format("{} CPU ranks: {} tokens, and other answers than one rank gives", report.ranks, report.tokens),
        same_everywhere);
  }
  return verdict.take();
}

}  // namespace muster::doctor
