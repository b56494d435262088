#include "job/model_adapters.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/adapter_folder.hpp"
#include "spec/capability.hpp"
#include "spec/model/adapted_modules.hpp"
#include "spec/model/model_search.hpp"

namespace muster::job {
namespace {

namespace fs = std::filesystem;

bool is_adapter_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / "adapter_config.json", ignored) && !fs::exists(path / "config.json", ignored);
}

Error cannot_compute(const std::string& adapter, spec::Capability what) {
  return {Error::Kind::refused, fmt::format("{}: this version has no {}", adapter, spec::name(what)),
          "merge it with PEFT (merge_and_unload), and name the merged model"};
}

}  // namespace

Result<void> take_adapter_folder(spec::ModelSpec& model) {
  if (!model.path) return {};
  const auto found = spec::find_model(*model.path, spec::model_search_from_environment());
  if (!found || !is_adapter_folder(*found)) return {};
  if (model.adapter)
    return bad_input(fmt::format("{} is an adapter itself, and model.adapter is {}", *model.path, *model.adapter),
                     "name the model with -m, and one adapter with --adapter");
  const auto config = checkpoint::read_adapter_config(*found);
  if (!config) return config.error();
  if (config->base_model.empty())
    return bad_input(fmt::format("{} is an adapter, and does not say which model it is for", *model.path),
                     fmt::format("-m MODEL --adapter {}", *model.path));
  model.adapter = found->string();
  model.path = config->base_model;
  return {};
}

Result<std::optional<spec::AdapterOptions>> given_adapter(const spec::ModelSpec& model, const spec::ModelShape& shape) {
  if (!model.adapter) return std::optional<spec::AdapterOptions>();
  auto adapter = checkpoint::open_adapter(*model.adapter, shape);
  if (!adapter) return adapter.error();
  spec::AdapterOptions& options = adapter->config.options;
  if (options.weight_decomposed) return cannot_compute(*model.adapter, spec::Capability::decomposed_adapters);
  if (!options.saved_modules.empty())
    return cannot_compute(*model.adapter, spec::Capability::whole_modules_beside_adapters);
  return std::optional(std::move(options));
}

Result<std::optional<spec::AdapterOptions>> trained_adapters(const spec::ModelSpec& model,
                                                             const spec::ModelShape& shape) {
  const std::optional<spec::AdapterOptions> fresh = model.adapters();
  if (model.adapter && fresh)
    return bad_input("model.use_lora begins a fresh adapter, and model.adapter names one to begin with",
                     "keep one of the two; an adapter's folder has its own rank, alpha and modules");
  if (!fresh) return given_adapter(model, shape);
  if (const auto modules = spec::adapted_modules(shape, *fresh); !modules)
    return bad_input(fmt::format("model.lora_target_modules: {}", modules.error().what), modules.error().remedy);
  return fresh;
}

Result<void> count_adapters(plan::Question& question, const std::optional<spec::AdapterOptions>& adapters) {
  if (!adapters) return {};
  auto counted = plan::adapters_beside(question.model->shape, *adapters);
  if (!counted) return counted.error();
  question.workload.adapters = std::move(*counted);
  return {};
}

}  // namespace muster::job
