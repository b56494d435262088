// Brings training state to ranks that have no files, and from them to ranks that have.
//
// Note [Ranks without files]
// The first ranks have the run's folder, and the others, on other hosts, do not. Where a state lies over ranks in
// parts, a rank of the first copy that has no folder is served by one that has: rank r by r modulo the ranks that have
// one. What a server reads or saves for another goes through its memory a unit and a state at a time. Other copies get
// their parts from the first one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "communicate/communicator.hpp"
#include "train/state_tensors.hpp"

namespace muster::train {

class StateTransfer {
 public:
  // All must outlive this. device: what the ranks communicate from. saving_ranks: how many have the run's folder.
  StateTransfer(communicate::Communicator& ranks, at::Device device, int saving_ranks, const StateTensors& state);

  bool has_files() const { return ranks_.rank() < saving_ranks_; }
  // Fills this rank's part. All ranks call it; only those that have files may read.
  Result<void> fill(const PieceReader& reader) const;

  // How many of the first ranks save.
  int savers() const;
  // What this rank saves; absent: nothing.
  std::optional<std::vector<checkpoint::Piece>> share() const;
  // Before a save: the parts of ranks without a folder come into the copies of those that save them. All ranks call it;
  // copy: of that share, nullptr where there is none. Ordered from the device.
  void bring_to_savers(checkpoint::HostCopy* copy) const;

  // A whole tensor's parameters, in the order of the model's files, into rank 0's out: flat, of any type, in the host's
  // memory. All ranks of the first copy call it.
  void bring_to_first(const std::string& tensor, const at::Tensor& out) const;

 private:
  // The parts that this rank reads and saves for ranks without files.
  std::vector<int> served() const;
  int server() const { return ranks_.rank() % saving_ranks_; }
  Result<void> read_for_others(const PieceReader& reader) const;
  void each_held(int part, const std::function<void(std::size_t unit, const std::string& state)>& use) const;
  void broadcast_whole() const;
  void send_held(int to) const;
  void receive_held(int from) const;
  void send(const at::Tensor& numbers, int to) const;
  void receive(const at::Tensor& numbers, int from) const;
  at::Tensor room(std::int64_t count) const;

  communicate::Communicator& ranks_;
  at::Device device_;
  int saving_ranks_;
  const StateTensors& state_;
};

}  // namespace muster::train
