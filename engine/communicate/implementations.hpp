// What make_communicator chooses from.
#pragma once

#include <chrono>
#include <memory>

#include "communicate/communicator.hpp"

namespace muster::communicate {

std::unique_ptr<Communicator> make_single_rank(at::Device device);
Result<std::unique_ptr<Communicator>> make_gloo(const Place& place, std::chrono::milliseconds timeout);
// A build without CUDA refuses, and says so.
Result<std::unique_ptr<Communicator>> make_nccl(const Place& place, at::Device device,
                                                std::chrono::milliseconds timeout);

}  // namespace muster::communicate
