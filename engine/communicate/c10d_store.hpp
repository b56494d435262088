// torch's client of the store, for its own groups.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "communicate/place.hpp"

namespace muster::communicate {

// prefix: what the keys begin with.
c10::intrusive_ptr<c10d::Store> connect_store(const Place& place, const std::string& prefix,
                                              std::chrono::milliseconds timeout);

}  // namespace muster::communicate
