// What a finished run leaves in model/: a folder that transformers and muster load.
#pragma once

#include "spec/model_shape.hpp"
#include "train/state_transfer.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

// Rank 0 writes; all ranks of the first copy call it.
Result<void> export_weights(const wire::TrainTask& task, const spec::ModelShape& shape, const StateTransfer& transfer,
                            int rank);

}  // namespace muster::train
