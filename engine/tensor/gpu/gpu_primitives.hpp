#pragma once

#include "tensor/device_ops.hpp"

namespace muster::tensor {

std::unique_ptr<Primitives> make_gpu_primitives(const DeviceOptions& options);
std::unique_ptr<RowOps> make_gpu_row_ops();
std::unique_ptr<TokenChoice> make_gpu_token_choice();
std::unique_ptr<TrainingOps> make_gpu_training_ops(bool deterministic);

}  // namespace muster::tensor
