// A model with everything that its training changes: parameters where the strategy has them, masters, and the
// optimizer's state.
#pragma once

#include <optional>

#include "chat/model_text.hpp"
#include "checkpoint/training_checkpoint.hpp"
#include "optimizer/optimizer.hpp"
#include "spec/model/model_source.hpp"
#include "train/piece_reader.hpp"
#include "train/state_transfer.hpp"
#include "train/trainer_context.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

class TrainedModel {
 public:
  // Without numbers: fill() gives them. policy: another model that is trained in the same run, and whose critic this is:
  // its state lies over the same ranks, and beside that one's in checkpoints.
  static Result<std::unique_ptr<TrainedModel>> make(const wire::TrainTask& task, const TrainerContext& context,
                                                    const TrainedModel* policy = nullptr);

  // From the checkpoint that was opened by the ranks that have files, else from the model's own files, or random ones.
  // May be called again, with other numbers. All ranks call it.
  Result<void> fill(const checkpoint::TrainingCheckpoint* resumed);

  const spec::ModelDescription& description() const { return description_; }
  const chat::ModelText& text() const { return text_; }
  tensor::DeviceOps& ops() { return ops_; }
  // The operations of the device that the masters are on.
  tensor::TrainingOps& master_ops() { return host_ ? *host_->training : *ops_.training; }
  model::CausalModel& model() { return model_; }
  parallel::Strategy& strategy() { return *strategy_; }
  optimizer::Optimizer& optimizer() { return *optimizer_; }
  const StateTensors& state() const { return state_; }
  const StateTransfer& transfer() const { return transfer_; }

 private:
  struct Described {
    spec::ModelConfig base;        // as its files have it
    spec::ModelDescription model;  // as it is trained
  };
  TrainedModel(const wire::TrainTask& task, const TrainerContext& context, std::shared_ptr<const StateRanks> ranks,
               Described described,
               chat::ModelText text, tensor::DeviceOps ops, std::optional<tensor::DeviceOps> host,
               const model::WeightForms& forms, const std::string& prefix);
  // The model's own weights, as it begins.
  Result<std::unique_ptr<checkpoint::TensorSource>> open_weights() const;
  // What is not trained. All ranks call it: each unit is read by one of those that have files. fresh: adapters begin
  // with it.
  Result<void> fill_frozen(bool fresh);
  void hand_around(model::UnitId unit, int reader);
  Result<void> read_weights();
  Result<void> fill_from(PieceReader reader);

  const wire::TrainTask& task_;
  const TrainerContext& context_;
  std::shared_ptr<const StateRanks> ranks_;
  spec::ModelConfig base_;
  spec::ModelDescription description_;
  chat::ModelText text_;
  tensor::DeviceOps ops_;
  std::optional<tensor::DeviceOps> host_;  // where masters are kept in the host's memory: what steps them there
  model::CausalModel model_;
  std::unique_ptr<parallel::Strategy> strategy_;
  std::unique_ptr<optimizer::Optimizer> optimizer_;
  StateTensors state_;
  StateTransfer transfer_;
  bool has_frozen_ = false;             // numbers of what is not trained
  model::RowLengths fresh_magnitudes_;  // what magnitudes begin with
};

}  // namespace muster::train
