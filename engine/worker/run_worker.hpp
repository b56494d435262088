// One rank of one job, from its assignment to its exit code.
#pragma once

#include "communicate/place.hpp"
#include "wire/worker_channel.hpp"

namespace muster::worker {

// Carries out the assignment and reports how it went. Returns the exit code. After a failure nothing is torn down in
// order: other threads may wait for ranks that are gone, and the caller should end the process at once.
int run_worker(wire::WorkerChannel& channel, const communicate::Place& place);

}  // namespace muster::worker
