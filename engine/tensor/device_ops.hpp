// Everything that computes on one device: primitives, pointwise operations, the choice of tokens, and what only
// training needs.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "spec/values.hpp"
#include "tensor/training_ops.hpp"
#include "tensor/row_ops.hpp"
#include "tensor/primitives.hpp"
#include "tensor/token_choice.hpp"

namespace muster::tensor {

struct DeviceOptions {
  at::Device device{at::kCPU};
  int threads = 1;  // of a CPU rank
  spec::Attention attention = spec::Attention::sdpa;
  bool deterministic = false;  // GPU: the same bits whatever is computed alongside
  bool keeps_memory = true;    // CPU: what is freed stays with the process. Not where parameters come and go
};

struct DeviceOps {
  at::Device device{at::kCPU};
  bool prefers_bfloat16 = false;  // computes in it at least as fast as in float32
  bool deterministic = true;      // the same bits whatever is computed alongside
  std::unique_ptr<Primitives> primitives;
  std::unique_ptr<RowOps> rows;
  std::unique_ptr<TokenChoice> token_choice;
  std::unique_ptr<TrainingOps> training;
};

// Refused: an attention that the device does not have.
Result<DeviceOps> make_device_ops(const DeviceOptions& options);

}  // namespace muster::tensor
