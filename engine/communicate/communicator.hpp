// How the ranks of a job exchange tensors. One rank alone is not a special case: it has its own implementation.
//
// Every rank calls the same collectives in the same order with the same sizes and types; each is a wait for all. What
// goes wrong while ranks wait for each other is thrown as a CommunicationError: nothing sensible can follow, and
// worker/failure_boundary.hpp reports it. Arguments that make no sense are bugs and throw std::invalid_argument.
//
// Tensors are contiguous and of float32, bfloat16, float16 or int64. They are seen as flat: shapes do not matter.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "communicate/place.hpp"

namespace muster::communicate {

enum class Reduction { sum, maximum };

class CommunicationError : public std::runtime_error {
 public:
  explicit CommunicationError(const std::string& what, std::vector<int> missing = {})
      : std::runtime_error(what), missing_(std::move(missing)) {}
  // Ranks that did not reach the collective, where that is known.
  const std::vector<int>& missing() const { return missing_; }

 private:
  std::vector<int> missing_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Every rank has root's values afterwards.
  void broadcast(const at::Tensor& tensor, int root);
  // Every rank has the reduction of all. In what order is the implementation's choice, the same for the same sizes.
  void all_reduce(const at::Tensor& tensor, Reduction reduction = Reduction::sum);
  // output [size × n]: the inputs [n] of all ranks, by rank.
  void all_gather(const at::Tensor& input, const at::Tensor& output);
  // output [n]: this rank's part of the reduction of the inputs [size × n] of all ranks.
  void reduce_scatter(const at::Tensor& input, const at::Tensor& output, Reduction reduction = Reduction::sum);
  // The first input_counts[0] elements of input go to rank 0, the next to rank 1, …; output likewise comes from them.
  // Counts may differ and may be 0.
  void all_to_all(const at::Tensor& input, std::span<const std::int64_t> input_counts, const at::Tensor& output,
                  std::span<const std::int64_t> output_counts);
  // One rank to another; several between the same two arrive in order. send may return before it was received, and may
  // wait until then. One thread may send while another receives.
  void send(const at::Tensor& tensor, int to);
  void receive(const at::Tensor& tensor, int from);
  // Waits for all, and for what they computed: failures of earlier collectives are thrown here at the latest.
  void barrier();
  // Throws what went wrong in an earlier collective, where its device has carried it out.
  void check() const { throw_failure(); }
  // Ends the waits of this rank, now and later, with an error; may be called from any thread. Peers notice, at the
  // latest by their timeout.
  void abort(const std::string& reason) { abort_waits(reason); }

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  // The arguments have been checked; sizes are above 0, but for parts of all_to_all.
  virtual void run_broadcast(const at::Tensor& tensor, int root) = 0;
  virtual void run_all_reduce(const at::Tensor& tensor, Reduction reduction) = 0;
  virtual void run_all_gather(const at::Tensor& input, const at::Tensor& output) = 0;
  virtual void run_reduce_scatter(const at::Tensor& input, const at::Tensor& output, Reduction reduction) = 0;
  virtual void run_all_to_all(const at::Tensor& input, const std::vector<std::int64_t>& input_counts,
                              const at::Tensor& output, const std::vector<std::int64_t>& output_counts) = 0;
  virtual void run_send(const at::Tensor& tensor, int to) = 0;
  virtual void run_receive(const at::Tensor& tensor, int from) = 0;
  virtual void abort_waits(const std::string& reason) = 0;
  // On the device that this communicator is for.
  virtual at::Device barrier_device() const { return at::kCPU; }
  // Throws what went wrong in a collective that the device had yet to carry out when it returned.
  virtual void throw_failure() const {}

  void check_peer(const char* operation, int peer) const;

  int rank_;
  int size_;
};

enum class Backend { gloo, nccl };

// Joins the other ranks through the store at place. One rank alone needs no store, and no backend. device: what this
// rank computes on; NCCL needs a GPU of its own. timeout: of the joining, and of each collective; ranks that do not
// come are named.
Result<std::unique_ptr<Communicator>> make_communicator(Backend backend, const Place& place, at::Device device,
                                                        std::chrono::milliseconds timeout);

}  // namespace muster::communicate
