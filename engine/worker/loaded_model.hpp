// A model of a generation task, loaded: its weights, its text, and what computes with them.
#pragma once

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
  std::int64_t longest = 0;  // prompt and answer together, in tokens
};

// layers: absent: all. Reports progress.
Result<std::unique_ptr<LoadedModel>> load_model(const wire::GenerateTask& task, Job& job,
                                                std::optional<model::LayerRange> layers);

}  // namespace muster::worker
