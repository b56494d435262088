// The parameters of a training checkpoint as a model's tensors: to load, to export.
#pragma once

#include <memory>

#include "checkpoint/tensor_source.hpp"
#include "checkpoint/training_checkpoint.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::checkpoint {

// Refused where the checkpoint's tensors are not these: one that is missing, another size, one too many.
Result<void> check_same_tensors(const TrainingCheckpoint& checkpoint, std::span<const LogicalTensor> wanted);

// Under the names of the shape, tied ones included.
Result<std::unique_ptr<TensorSource>> training_parameters(TrainingCheckpoint checkpoint, const spec::ModelShape& shape);

}  // namespace muster::checkpoint
