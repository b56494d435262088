// A model that a task names, loaded: its weights, its text, and what computes with them.
#pragma once

#include <algorithm>
#include <optional>

#include "chat/model_text.hpp"
#include "checkpoint/tensor_source.hpp"
#include "model/causal_model.hpp"
#include "worker/job.hpp"

namespace muster::worker {

struct LoadedModel {
  std::unique_ptr<checkpoint::TensorSource> source;          // read from again where parts of the model do not stay
  std::unique_ptr<checkpoint::TensorSource> in_host_memory;  // the same, of what is kept there
  tensor::DeviceOps ops;
  std::optional<model::CausalModel> model;
  std::optional<chat::ModelText> text;

  // A sequence of a generation task, prompt and answer together, in tokens.
  std::int64_t longest(const wire::GenerateTask& task) const {
    return std::min(task.sequence_length, model->config().positions);
  }
};

// What of a model a rank holds, and where.
struct HeldParts {
  std::optional<model::LayerRange> layers = {};  // absent: all
  wire::Offload in_host_memory = {};
  wire::Offload on_disk = {};
};

// Reports progress.
Result<std::unique_ptr<LoadedModel>> load_model(const wire::ModelChoice& choice, const HeldParts& parts, Job& job);

}  // namespace muster::worker
