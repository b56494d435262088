#include "train/trained_model.hpp"

#include <utility>

#include "checkpoint/adapters/adapter_folder.hpp"
#include "checkpoint/tensor_source.hpp"
#include "model/random_source.hpp"
#include "parallel/frozen_bytes.hpp"
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

Result<std::unique_ptr<checkpoint::TensorSource>> open_model(const wire::TrainTask& task,
                                                             const spec::ModelDescription& description,
                                                             std::uint64_t seed) {
  if (task.random_weights) return model::make_random_source(description.config, seed);
  return checkpoint::open_checkpoint(task.model, spec::model_search_from_environment());
}

// Weights that are trained are plain.
Result<model::WeightForms> forms_of(const wire::TrainTask& task, const spec::ModelDescription& description,
                                    std::uint64_t seed) {
  if (!task.adapters) return model::WeightForms();
  const auto source = open_model(task, description, seed);
  if (!source) return source.error();
  auto forms = model::forms_of_weights(description.shape, **source, task.weights);
  if (!forms) return forms;
  auto adapters = model::adapter_forms(description.shape, *task.adapters);
  if (!adapters) return adapters.error();
  forms->adapters.push_back(std::move(*adapters));
  return forms;
}

}  // namespace

TrainedModel::TrainedModel(const wire::TrainTask& task, const TrainerContext& context, StateRanks ranks,
                           spec::ModelDescription description, chat::ModelText text, tensor::DeviceOps ops,
                           std::optional<tensor::DeviceOps> host, const model::WeightForms& forms)
    : task_(task),
      context_(context),
      ranks_(std::move(ranks)),
      description_(std::move(description)),
      text_(std::move(text)),
      ops_(std::move(ops)),
      host_(std::move(host)),
      model_(model::CausalModel::unfilled(description_.config, ops_, tensor::to_torch(task.compute),
                                          ranks_.parameter_memory(ops_, tensor::to_torch(task.state)), forms)),
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
  const auto forms = forms_of(task, *description, context.seed);
  if (!forms) return forms.error();
  return std::unique_ptr<TrainedModel>(new TrainedModel(task, context, std::move(*ranks), std::move(*description),
                                                        std::move(*text), std::move(*ops), std::move(host), *forms));
}

Result<void> TrainedModel::fill(const checkpoint::TrainingCheckpoint* resumed) {
  if (auto frozen = fill_frozen(); !frozen) return frozen;
  auto filled = !transfer_.has_files() ? transfer_.fill({}) : resumed ? fill_from(reader_of(*resumed)) : read_weights();
  if (filled) strategy_->publish();
  return filled;
}

Result<std::unique_ptr<checkpoint::TensorSource>> TrainedModel::open_weights() const {
  return open_model(task_, description_, context_.seed);
}

Result<void> TrainedModel::fill_frozen() {
  if (!task_.adapters || std::exchange(has_frozen_, true)) return {};
  std::unique_ptr<checkpoint::TensorSource> source;  // absent: this rank has no files
  if (transfer_.has_files()) {
    auto opened = open_weights();
    if (!opened) return opened.error();
    source = std::move(*opened);
  }
  ProgressSign sign(context_.tell, "loading", static_cast<std::int64_t>(model_.units()));
  for (std::size_t i = 0; i < model_.units(); ++i) {
    const model::UnitId unit{i};
    model_.provide_frozen(unit);
    const int reader = static_cast<int>(i) % static_cast<int>(task_.saving_ranks);
    if (context_.ranks.rank() == reader)
      if (auto read = model_.read_frozen(unit, *source, context_.threads); !read) return read;
    hand_around(unit, reader);
    strategy_->take_frozen(unit);
    sign.give(static_cast<std::int64_t>(i) + 1);
  }
  return {};
}

// From the rank that read the unit's frozen parameters to all others.
void TrainedModel::hand_around(model::UnitId unit, int reader) {
  auto storages = model_.frozen_storages(unit);
  if (context_.ranks.size() == 1 || storages.empty()) return;
  parallel::FrozenBytes bytes(std::move(storages));
  const at::Tensor all = bytes.part(0, 1);
  context_.ranks.broadcast(all, reader);
  bytes.adopt(all);
}

Result<void> TrainedModel::read_weights() {
  if (task_.adapter) {
    const auto adapter = checkpoint::open_adapter(*task_.adapter, description_.shape);
    if (!adapter) return adapter.error();
    return fill_from(reader_of(*adapter->tensors));
  }
  if (task_.adapters) return fill_from(reader_of(*model::make_fresh_adapters(model_.parameters(), context_.seed)));
  const auto source = open_weights();
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
