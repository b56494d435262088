#include "worker/loaded_model.hpp"

#include <algorithm>
#include <chrono>

#include "checkpoint/adapters/adapted_source.hpp"
#include "checkpoint/adapters/adapter_folder.hpp"
#include "model/host_source.hpp"
#include "model/random_source.hpp"
#include "spec/model/model_source.hpp"
#include "tensor/element_types.hpp"

namespace muster::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_load_reports(200);

// What is computed with: the model as its adapters see it, with their tensors, and the forms of all weights.
struct OpenedModel {
  spec::ModelDescription description;
  std::unique_ptr<checkpoint::TensorSource> weights;
  model::WeightForms forms;
};

Result<std::unique_ptr<checkpoint::TensorSource>> open_base(const wire::ModelChoice& choice,
                                                            const spec::ModelDescription& description,
                                                            const spec::ModelSearch& search, std::uint64_t seed) {
  if (choice.random_weights) return model::make_random_source(description.config, seed);
  return checkpoint::open_checkpoint(choice.name, search);
}

Result<OpenedModel> open_model(const wire::ModelChoice& choice, const spec::ModelSearch& search, std::uint64_t seed) {
  auto description = spec::read_model(choice.name, search, std::nullopt);
  if (!description) return description.error();
  auto base = open_base(choice, *description, search, seed);
  if (!base) return base.error();
  auto forms = model::forms_of_weights(description->shape, **base, choice.weights);
  if (!forms) return forms.error();
  std::vector<std::unique_ptr<checkpoint::TensorSource>> adapters;
  for (const std::string& folder : choice.adapters) {
    auto adapter = checkpoint::open_adapter(folder, description->shape);
    if (!adapter) return adapter.error();
    const spec::AdapterOptions& options = adapter->config.options;
    if (auto added = model::add_adapter(*forms, description->shape, options); !added) return added.error();
    *description = spec::beside_adapters(std::move(*description), options);
    adapters.push_back(std::move(adapter->tensors));
  }
  return OpenedModel{std::move(*description), checkpoint::with_adapters(std::move(*base), std::move(adapters)),
                     std::move(*forms)};
}

std::function<void(const model::LoadProgress&)> tell_loading(Job& job) {
  return [&job, last = Clock::now()](const model::LoadProgress& progress) mutable {
    const auto now = Clock::now();
    if (now - last < between_load_reports && progress.done < progress.total) return;
    last = now;
    job.channel.tell(wire::Progress{"loading", progress.done, progress.total});
  };
}

std::vector<model::OffloadedParts> offloaded_parts(const HeldParts& parts, const LoadedModel& loaded) {
  const auto& [host_layers, host_embedding, host_head] = parts.in_host_memory;
  const auto& [disk_layers, disk_embedding, disk_head] = parts.on_disk;
  return {{host_layers, host_embedding, host_head, loaded.in_host_memory.get()},
          {disk_layers, disk_embedding, disk_head, loaded.source.get()}};
}

}  // namespace

Result<std::unique_ptr<LoadedModel>> load_model(const wire::ModelChoice& choice, const HeldParts& parts, Job& job) {
  auto loaded = std::make_unique<LoadedModel>();
  const wire::Assignment& assignment = job.assignment();
  const spec::ModelSearch search = spec::model_search_from_environment();
  auto opened = open_model(choice, search, assignment.seed);
  if (!opened) return opened.error();
  const spec::ModelConfig& config = opened->description.config;
  auto text = chat::read_model_text(choice.tokenizer.value_or(choice.name), search);
  if (!text) return text.error();
  loaded->text.emplace(std::move(*text));
  const bool all_stays = parts.in_host_memory.empty() && parts.on_disk.empty();
  auto ops =
      tensor::make_device_ops({job.device, assignment.threads, choice.attention, choice.deterministic, all_stays});
  if (!ops) return ops.error();
  loaded->ops = std::move(*ops);
  loaded->source = std::move(opened->weights);
  loaded->in_host_memory = model::make_host_source(*loaded->source);
  const spec::ElementType usual =
      loaded->ops.prefers_bfloat16 ? spec::ElementType::bfloat16 : spec::ElementType::float32;
  auto model =
      model::CausalModel::load(config, *loaded->source, loaded->ops,
                               {tensor::to_torch(choice.dtype.value_or(usual)), parts.layers, std::max(1, assignment.threads),
                                tell_loading(job), offloaded_parts(parts, *loaded), std::move(opened->forms)});
  if (!model) return model.error();
  loaded->model.emplace(std::move(*model));
  return loaded;
}

}  // namespace muster::worker
