#include "train/rollouts/reference_model.hpp"

#include "checkpoint/adapters/adapted_source.hpp"
#include "checkpoint/adapters/adapter_folder.hpp"
#include "model/random_source.hpp"
#include "tensor/element_types.hpp"
#include "train/objective_pass.hpp"
#include "train/objectives/policy_objective.hpp"

namespace muster::train {

Result<std::unique_ptr<ReferenceModel>> ReferenceModel::make(const wire::TrainTask& task, const TrainerContext& context,
                                                             TrainedModel& trained) {
  std::unique_ptr<ReferenceModel> made(new ReferenceModel(task, context, trained));
  if (!task.adapters || task.adapter)
    if (auto loaded = made->load_copy(); !loaded) return loaded.error();
  return made;
}

Result<void> ReferenceModel::load_copy() {
  const spec::ModelSearch search = spec::model_search_from_environment();
  auto description = spec::read_model(task_.model, search, std::nullopt);
  if (!description) return description.error();
  auto weights = task_.random_weights ? Result(model::make_random_source(description->config, context_.seed))
                                      : checkpoint::open_checkpoint(task_.model, search);
  if (!weights) return weights.error();
  auto forms = model::forms_of_weights(description->shape, **weights, task_.weights);
  if (!forms) return forms.error();
  if (task_.adapter) {
    auto adapter = checkpoint::open_adapter(*task_.adapter, description->shape);
    if (!adapter) return adapter.error();
    if (auto added = model::add_adapter(*forms, description->shape, adapter->config.options); !added) return added.error();
    *description = spec::beside_adapters(std::move(*description), adapter->config.options);
    std::vector<std::unique_ptr<checkpoint::TensorSource>> beside;
    beside.push_back(std::move(adapter->tensors));
    *weights = checkpoint::with_adapters(std::move(*weights), std::move(beside));
  }
  model::LoadOptions options;
  options.type = tensor::to_torch(task_.compute);
  options.threads = std::max(1, context_.threads);
  options.forms = std::move(*forms);
  auto loaded = model::CausalModel::load(description->config, **weights, trained_.ops(), options);
  if (!loaded) return loaded.error();
  copy_.emplace(std::move(*loaded));
  return {};
}

void ReferenceModel::score(std::vector<Rollout>& answers, const std::vector<std::vector<std::int32_t>>& prompts) {
  ObjectivePass passes(make_policy({.policy = task_.policy}), model(), trained_.ops(), task_.pinned);
  scoring_.run(
      answers, prompts, model().home(),
      [&](data::MicroBatch& batch) {
        batch.without_adapters = !copy_;
        return passes.log_probabilities(batch);
      },
      [](Rollout& answer, std::span<const float> numbers) { answer.reference.assign(numbers.begin(), numbers.end()); });
}

}  // namespace muster::train
