// What a task has at hand: its rank's place, its device, and the channel to the controlling program.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "base/result.hpp"
#include "communicate/communicator.hpp"
#include "wire/worker_channel.hpp"

namespace muster::worker {

struct Job {
  wire::WorkerChannel& channel;
  communicate::Place place;
  at::Device device;

  const wire::Assignment& assignment() const { return channel.assignment(); }
  // Joins the other ranks, by the assignment's backend. Tasks whose ranks work each for itself do without.
  Result<std::unique_ptr<communicate::Communicator>> join_ranks() const;
  // Tells that everything is loaded.
  void ready() const { channel.tell(wire::Ready{device.str()}); }
};

}  // namespace muster::worker
