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
using wire::GenerateTask;

constexpr std::chrono::milliseconds between_load_reports(200);

// What is computed with: the model as its adapters see it, with their tensors, and the forms of all weights.
struct OpenedModel {
  spec::ModelDescription description;
  std::unique_ptr<checkpoint::TensorSource> weights;
  model::WeightForms forms;
};

Result<std::unique_ptr<checkpoint::TensorSource>> open_base(const GenerateTask& task,
                                                            const spec::ModelDescription& description,
                                                            const spec::ModelSearch& search, std::uint64_t seed) {
  if (task.random_weights) return model::make_random_source(description.config, seed);
  return checkpoint::open_checkpoint(task.model, search);
}

Result<OpenedModel> open_model(const GenerateTask& task, const spec::ModelSearch& search, std::uint64_t seed) {
  auto description = spec::read_model(task.model, search, std::nullopt);
  if (!description) return description.error();
  auto base = open_base(task, *description, search, seed);
  if (!base) return base.error();
  auto forms = model::forms_of_weights(description->shape, **base, task.weights);
  if (!forms) return forms.error();
  std::vector<std::unique_ptr<checkpoint::TensorSource>> adapters;
  for (const std::string& folder : task.adapters) {
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

std::vector<model::OffloadedParts> offloaded_parts(const GenerateTask& task, const LoadedModel& loaded) {
  const auto& [host_layers, host_embedding, host_head] = task.in_host_memory;
  const auto& [disk_layers, disk_embedding, disk_head] = task.on_disk;
  return {{host_layers, host_embedding, host_head, loaded.in_host_memory.get()},
          {disk_layers, disk_embedding, disk_head, loaded.source.get()}};
}

}  // namespace

Result<std::unique_ptr<LoadedModel>> load_model(const GenerateTask& task, Job& job,
                                                std::optional<model::LayerRange> layers) {
  auto loaded = std::make_unique<LoadedModel>();
  const wire::Assignment& assignment = job.assignment();
  const spec::ModelSearch search = spec::model_search_from_environment();
  auto opened = open_model(task, search, assignment.seed);
  if (!opened) return opened.error();
  const spec::ModelConfig& config = opened->description.config;
  loaded->longest = std::min(task.sequence_length, config.positions);
  auto text = chat::read_model_text(task.tokenizer.value_or(task.model), search);
  if (!text) return text.error();
  loaded->text.emplace(std::move(*text));
  const bool all_stays = task.in_host_memory.empty() && task.on_disk.empty();
  auto ops =
      tensor::make_device_ops({job.device, assignment.threads, task.attention, task.deterministic, all_stays});
  if (!ops) return ops.error();
  loaded->ops = std::move(*ops);
  loaded->source = std::move(opened->weights);
  loaded->in_host_memory = model::make_host_source(*loaded->source);
  const spec::ElementType usual =
      loaded->ops.prefers_bfloat16 ? spec::ElementType::bfloat16 : spec::ElementType::float32;
  auto model =
      model::CausalModel::load(config, *loaded->source, loaded->ops,
                               {tensor::to_torch(task.dtype.value_or(usual)), layers, std::max(1, assignment.threads),
                                tell_loading(job), offloaded_parts(task, *loaded), std::move(opened->forms)});
  if (!model) return model.error();
  loaded->model.emplace(std::move(*model));
  return loaded;
}

}  // namespace muster::worker
