// The head of a policy that says what is expected from a token on (PPO): where its numbers come from, and the file beside
// a model that keeps them.
#pragma once

#include <memory>

#include "checkpoint/model_texts.hpp"
#include "checkpoint/tensor_source.hpp"
#include "spec/model/model_source.hpp"
#include "train/state_transfer.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

// The source, and the heads of a model with this shape that it lacks (TrainTask::fresh_head): those of the file beside the
// model, else random ones.
Result<std::unique_ptr<checkpoint::TensorSource>> with_heads(std::unique_ptr<checkpoint::TensorSource> source,
                                                             const wire::TrainTask& task,
                                                             const spec::ModelShape& shape, std::uint64_t seed);

// The model alone, without this head.
spec::ModelDescription without_value_head(spec::ModelDescription model);

// spec::value_head_file, a safetensors file in float32. All ranks call it, and the first one gets it.
checkpoint::NamedText bring_value_head(const spec::ModelShape& shape, const StateTransfer& transfer, int rank);

}  // namespace muster::train
