// Lets two ranks of muster-worker answer prompts with a small model made here, as muster generate would.
#pragma once

#include <optional>

#include "doctor/host_facts.hpp"
#include "host/host.hpp"

namespace muster::doctor {

// Once on one CPU rank, once on two: their answers must have the same bytes. Absent: muster-worker is missing. To be
// called while this process has one thread: it forks.
std::optional<Result<GenerationReport>> probe_generation(const host::HostSources& sources);

}  // namespace muster::doctor
