// Ranks that are threads of one process: for tests, and as the reference for the others. Sums are taken in the order of
// the ranks, those of 16-bit types in float32.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "communicate/communicator.hpp"

namespace muster::communicate {

// By rank. Each is used by one thread; they may be destroyed in any order.
std::vector<std::unique_ptr<Communicator>> make_thread_group(int size, std::chrono::milliseconds timeout);

}  // namespace muster::communicate
