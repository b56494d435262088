#include "train/trained_model.hpp"

#include <utility>

#include "checkpoint/adapters/adapted_source.hpp"
#include "checkpoint/adapters/adapter_folder.hpp"
#include "checkpoint/tensor_source.hpp"
#include "model/random_source.hpp"
#include "parallel/frozen_bytes.hpp"
#include "tensor/element_types.hpp"
#include "train/progress_sign.hpp"
#include "train/value_head.hpp"

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

// shape: of the model as it is trained.
Result<std::unique_ptr<checkpoint::TensorSource>> open_model(const wire::TrainTask& task, const spec::ModelConfig& base,
                                                             const spec::ModelShape& shape, std::uint64_t seed) {
  auto source = task.random_weights ? Result(model::make_random_source(base, seed))
                                    : checkpoint::open_checkpoint(task.model, spec::model_search_from_environment());
  if (!source) return source;
  return with_heads(std::move(*source), task, shape, seed);
}

// Weights that are trained are plain.
Result<model::WeightForms> forms_of(const wire::TrainTask& task, const spec::ModelDescription& description,
                                    const spec::ModelConfig& base, std::uint64_t seed) {
  if (!task.adapters) return model::WeightForms();
  const auto source = open_model(task, base, description.shape, seed);
  if (!source) return source.error();
  auto forms = model::forms_of_weights(description.shape, **source, task.weights);
  if (!forms) return forms;
  if (auto added = model::add_adapter(*forms, description.shape, *task.adapters); !added) return added.error();
  return forms;
}

}  // namespace

TrainedModel::TrainedModel(const wire::TrainTask& task, const TrainerContext& context,
                           std::shared_ptr<const StateRanks> ranks, Described described, chat::ModelText text,
                           tensor::DeviceOps ops, std::optional<tensor::DeviceOps> host,
                           const model::WeightForms& forms, const std::string& prefix)
    : task_(task),
      context_(context),
      ranks_(std::move(ranks)),
      base_(std::move(described.base)),
      description_(std::move(described.model)),
      text_(std::move(text)),
      ops_(std::move(ops)),
      host_(std::move(host)),
      model_(model::CausalModel::unfilled(description_.config, ops_, tensor::to_torch(task.compute),
                                          ranks_->parameter_memory(ops_, tensor::to_torch(task.state)), forms)),
      strategy_(ranks_->make_strategy(model_, ops_, task.exact, tensor::to_torch(task.state))),
      optimizer_(optimizer::make_optimizer(optimizer_settings(task.optimizer), master_ops(), *strategy_)),
      state_(*strategy_, *optimizer_, prefix),
      transfer_(context.ranks, context.device, static_cast<int>(task.saving_ranks), state_) {}

Result<std::unique_ptr<TrainedModel>> TrainedModel::make(const wire::TrainTask& task, const TrainerContext& context,
                                                         const TrainedModel* policy) {
  const spec::ModelSearch search = spec::model_search_from_environment();
  auto description = spec::read_model(task.model, search, std::nullopt);
  if (!description) return description.error();
  Described described{description->config, std::move(*description)};
  if (task.fresh_head) described.model = spec::with_score_head(std::move(described.model), *task.fresh_head);
  if (task.adapters) described.model = spec::beside_adapters(std::move(described.model), *task.adapters);
  auto text = chat::read_model_text(task.model, search);
  if (!text) return text.error();
  auto ops = tensor::make_device_ops({context.device, context.threads, task.attention, task.deterministic});
  if (!ops) return ops.error();
  std::shared_ptr<const StateRanks> ranks = policy != nullptr ? policy->ranks_ : nullptr;
  if (!ranks) {
    auto joined = StateRanks::join(task.sharding, context.ranks, context.join_some);
    if (!joined) return joined.error();
    ranks = std::make_shared<const StateRanks>(std::move(*joined));
  }
  std::optional<tensor::DeviceOps> host;
  if (ranks->in_host_memory(context.device)) {
    auto made = tensor::make_device_ops({.threads = context.threads});
    if (!made) return made.error();
    host.emplace(std::move(*made));
  }
  const auto forms = forms_of(task, described.model, described.base, context.seed);
  if (!forms) return forms.error();
  return std::unique_ptr<TrainedModel>(new TrainedModel(task, context, std::move(ranks), std::move(described),
                                                        std::move(*text), std::move(*ops), std::move(host), *forms,
                                                        policy != nullptr ? "critic." : ""));
}

Result<void> TrainedModel::fill(const checkpoint::TrainingCheckpoint* resumed) {
  if (auto frozen = fill_frozen(resumed == nullptr && !task_.adapter); !frozen) return frozen;
  auto filled = !transfer_.has_files() ? transfer_.fill({})
                : resumed              ? fill_from(reader_of(*resumed, state_.prefix()))
                                       : read_weights();
  if (filled) strategy_->publish();
  return filled;
}

Result<std::unique_ptr<checkpoint::TensorSource>> TrainedModel::open_weights() const {
  return open_model(task_, base_, description_.shape, context_.seed);
}

Result<void> TrainedModel::fill_frozen(bool fresh) {
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
    if (fresh && transfer_.has_files()) model_.measure_rows(unit, fresh_magnitudes_);
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
    auto adapter = checkpoint::open_adapter(*task_.adapter, description_.shape);
    if (!adapter) return adapter.error();
    if (!task_.critic) return fill_from(reader_of(*adapter->tensors));
    const auto whole = with_heads(std::move(adapter->tensors), task_, description_.shape, context_.seed);
    if (!whole) return whole.error();
    return fill_from(reader_of(**whole));
  }
  auto source = open_weights();
  if (!source) return source.error();
  if (!task_.adapters) return fill_from(reader_of(**source));
  std::vector<std::unique_ptr<checkpoint::TensorSource>> fresh;
  fresh.push_back(model::make_fresh_adapters(model_.parameters(), fresh_magnitudes_, context_.seed));
  return fill_from(reader_of(*checkpoint::with_adapters(std::move(*source), std::move(fresh))));
}

Result<void> TrainedModel::fill_from(PieceReader reader) {
  std::int64_t elements = 0, done = 0;
  for (std::size_t unit = 0; unit < state_.units(); ++unit)
    for (const std::string& state : state_.states()) elements += state_.held_count(unit, state_.place().part, state);
  ProgressSign sign(context_.tell, "loading", elements);
  return transfer_.fill([&](const parallel::FlatPiece& piece, const std::string& state, const at::Tensor& flat) {
    auto read = reader(piece, state, flat);
    sign.give(done += piece.count);
    return read;
  });
}

}  // namespace muster::train
