// What a finished run leaves in model/: a folder that transformers and muster load.
#pragma once

#include <functional>
#include <string>

#include "chat/model_text.hpp"
#include "spec/model/model_source.hpp"
#include "train/state_transfer.hpp"
#include "wire/event.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

struct ExportContext {
  int rank = 0;
  std::function<void(const wire::EventBody&)> tell;  // reports rank 0's progress
  std::string folder = "model";                      // in the run's
};

// Rank 0 writes; all ranks of the first copy call it.
Result<void> export_weights(const wire::TrainTask& task, const spec::ModelDescription& model, const chat::ModelText& text,
                            const StateTransfer& transfer, const ExportContext& place);

}  // namespace muster::train
