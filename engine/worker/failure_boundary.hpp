// Where all failures of a rank end: whatever is thrown becomes an event and an exit code.
#pragma once

#include <functional>

#include "base/result.hpp"
#include "wire/event.hpp"
#include "wire/worker_channel.hpp"

namespace muster::worker {

// Runs work; returns a failure that it returned or threw as the event that reports it. Nothing when all was done.
std::optional<wire::Failed> catch_failures(const std::function<Result<void>()>& work);

// Reports to the controlling program and the user; returns the exit code to leave with.
int tell_failure(wire::WorkerChannel& channel, const wire::Failed& failed);

}  // namespace muster::worker
