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
  // Joins the other ranks, by the assignment's backend. Tasks whose ranks work separately do without.
  Result<std::unique_ptr<communicate::Communicator>> join_ranks() const { return join(place); }
  // Only the ranks first, first + stride, …, this many of them; this one is among them.
  Result<std::unique_ptr<communicate::Communicator>> join_some(int first, int size, int stride) const {
    return join(communicate::place_in_group(place, first, size, stride));
  }
  // Reports that everything is loaded.
  void ready() const { channel.tell(wire::Ready{device.str()}); }

 private:
  Result<std::unique_ptr<communicate::Communicator>> join(const communicate::Place& at) const;
};

}  // namespace muster::worker
