// Starts real processes, each with the mask of one GPU, and collects what each of them sees.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "doctor/host_facts.hpp"
#include "host/host.hpp"

namespace muster::doctor {

// What a worker prints: this process's mask, and which GPUs it sees itself. One line of JSON.
std::string worker_report(const host::HostSources& sources);

Result<WorkerReport> parse_worker_report(std::string_view text);

// At most eight workers, one for each visible GPU that can be reached; two CPU workers when there is none. They run at
// the same time. command is this program in the form that prints worker_report.
std::vector<WorkerFacts> probe_workers(const host::HostView& view, const host::HostSources& sources,
                                       const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace muster::doctor
