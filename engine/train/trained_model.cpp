#include "train/trained_model.hpp"

#include "checkpoint/tensor_source.hpp"
#include "model/random_source.hpp"
#include "tensor/element_types.hpp"
#include "train/progress_sign.hpp"

namespace muster::train {
namespace {

optimizer::OptimizerSettings optimizer_settings(const wire::OptimizerOptions& options) {
  return {.kind = options.kind,
          .weight_decay = options.weight_decay,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .momentum = options.momentum};
}

}  // namespace

TrainedModel::TrainedModel(const wire::TrainTask& task, const TrainerContext& context, StateRanks ranks,
                           spec::ModelDescription description, chat::ModelText text, tensor::DeviceOps ops,
                           std::optional<tensor::DeviceOps> host)
    : task_(task),
      context_(context),
      ranks_(std::move(ranks)),
      description_(std::move(description)),
      text_(std::move(text)),
      ops_(std::move(ops)),
      host_(std::move(host)),
      model_(model::CausalModel::unfilled(description_.config, ops_, tensor::to_torch(task.compute),
                                          ranks_.parameter_memory(ops_, tensor::to_torch(task.state)))),
      strategy_(ranks_.make_strategy(model_, ops_, task.exact, tensor::to_torch(task.state))),
      optimizer_(optimizer::make_optimizer(optimizer_settings(task.optimizer), master_ops(), *strategy_)),
      state_(*strategy_, *optimizer_),
      transfer_(context.ranks, context.device, static_cast<int>(task.saving_ranks), state_) {}

Result<std::unique_ptr<TrainedModel>> TrainedModel::make(const wire::TrainTask& task, const TrainerContext& context) {
  const spec::ModelSearch search = spec::model_search_from_environment();
  auto description = spec::read_model(task.model, search, std::nullopt);
  if (!description) return description.error();
  auto text = chat::read_model_text(task.model, search);
  if (!text) return text.error();
  auto ops = tensor::make_device_ops({context.device, context.threads, task.attention, task.deterministic});
  if (!ops) return ops.error();
  auto ranks = StateRanks::join(task.sharding, context.ranks, context.join_some);
  if (!ranks) return ranks.error();
  std::optional<tensor::DeviceOps> host;
  if (ranks->in_host_memory(context.device)) {
    auto made = tensor::make_device_ops({.threads = context.threads});
    if (!made) return made.error();
    host.emplace(std::move(*made));
  }
  return std::unique_ptr<TrainedModel>(new TrainedModel(task, context, std::move(*ranks), std::move(*description),
                                                        std::move(*text), std::move(*ops), std::move(host)));
}

Result<void> TrainedModel::fill(const checkpoint::TrainingCheckpoint* resumed) {
  auto filled = !transfer_.has_files() ? transfer_.fill({}) : resumed ? fill_from(reader_of(*resumed)) : read_weights();
  if (filled) strategy_->publish();
  return filled;
}

Result<void> TrainedModel::read_weights() {
  if (task_.random_weights) return fill_from(reader_of(*model::make_random_source(description_.config, context_.seed)));
  const auto source = checkpoint::open_checkpoint(task_.model, spec::model_search_from_environment());
  if (!source) return source.error();
  return fill_from(reader_of(**source));
}

Result<void> TrainedModel::fill_from(PieceReader reader) {
  std::int64_t elements = 0, done = 0;
  for (std::size_t unit = 0; unit < state_.units(); ++unit) elements += state_.part_elements(unit);
  ProgressSign sign(context_.tell, "loading", elements * std::ssize(state_.states()));
  return transfer_.fill([&](const parallel::FlatPiece& piece, const std::string& state, const at::Tensor& flat) {
    auto read = reader(piece, state, flat);
    sign.give(done += piece.count);
    return read;
  });
}

}  // namespace muster::train
