// The one door through which failures of a rank leave: whatever is thrown becomes an event and an exit code.
#pragma once

#include <functional>

#include "base/result.hpp"
#include "wire/event.hpp"
#include "wire/worker_channel.hpp"

namespace muster::worker {

// Runs work; what it returns or throws, as the event that tells it. Nothing when it did everything.
std::optional<wire::Failed> through_the_door(const std::function<Result<void>()>& work);

// Tells the controlling program and the user; the exit code to leave with.
int tell_failure(wire::WorkerChannel& channel, const wire::Failed& failed);

}  // namespace muster::worker
