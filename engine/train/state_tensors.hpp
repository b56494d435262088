// The training state under the names that checkpoints have for it: what is saved and resumed, whatever the layout.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/host_copy.hpp"
#include "checkpoint/tensor_source.hpp"
#include "checkpoint/training_checkpoint.hpp"
#include "optimizer/optimizer.hpp"
#include "parallel/strategy.hpp"

namespace muster::train {

class StateTensors {
 public:
  // Both must outlive this. Of strategies whose ranks hold everything.
  StateTensors(const parallel::Strategy& strategy, const optimizer::Optimizer& optimizer);

  // All of them, in the order of the model.
  const std::vector<checkpoint::LogicalTensor>& tensors() const { return tensors_; }
  // A whole tensor in a checkpoint's order: flat, float32, on the device.
  at::Tensor values(const std::string& tensor, const std::string& state) const;
  // The numbers of the copy's pieces as they are now. Ordered from the device: they are there when it is done.
  void copy_to(checkpoint::HostCopy& copy) const;
  // Masters and optimizer states as the checkpoint has them.
  Result<void> read(const checkpoint::TrainingCheckpoint& checkpoint);
  // Masters alone.
  Result<void> read(const checkpoint::TensorSource& source);

 private:
  struct Place {
    std::size_t shard = 0;
    parallel::FlatPiece piece;
  };
  const at::Tensor& flat(std::size_t shard, const std::string& state) const;
  void write(const Place& place, const std::string& state, const at::Tensor& host) const;

  const parallel::Strategy& strategy_;
  const optimizer::Optimizer& optimizer_;
  std::vector<checkpoint::LogicalTensor> tensors_;
  std::map<std::string, Place> places_;
};

}  // namespace muster::train
