#include "job/model_forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "checkpoint/adapters/adapter_folder.hpp"
#include "spec/model/adapters/adapted_modules.hpp"
#include "spec/model/model_search.hpp"
#include "spec/model/quantized/packed_modules.hpp"
#include "spec/packed_name.hpp"

namespace muster::job {
namespace {

namespace fs = std::filesystem;

bool is_adapter_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / "adapter_config.json", ignored) && !fs::exists(path / "config.json", ignored);
}

Result<void> take_adapter_folder(spec::ModelSpec& model, const spec::ModelSearch& search) {
  const auto found = spec::find_model(*model.path, search);
  if (!found || !is_adapter_folder(*found)) return {};
  if (!model.adapter_folders.empty())
    return bad_input(fmt::format("{} is an adapter itself, and model.adapters names {}", *model.path,
                                 model.adapter_folders.front()),
                     "name the model with -m, and adapters with --adapter");
  const auto config = checkpoint::read_adapter_config(*found);
  if (!config) return config.error();
  if (config->base_model.empty())
    return bad_input(fmt::format("{} is an adapter, and does not say which model it is for", *model.path),
                     fmt::format("-m MODEL --adapter {}", *model.path));
  model.adapter_folders = {found->string()};
  model.path = config->base_model;
  return {};
}

}  // namespace

Result<void> take_model_name(spec::ModelSpec& model) {
  if (!model.path) return {};
  const spec::ModelSearch search = spec::model_search_from_environment();
  // The name of an adapter's folder may end in -4bit, and so may that of its model.
  if (auto taken = spec::take_packed_name(model, search); !taken) return taken;
  if (auto taken = take_adapter_folder(model, search); !taken) return taken;
  return spec::take_packed_name(model, search);
}

Result<std::optional<spec::WeightOptions>> asked_form(const spec::ModelSpec& model, const spec::ModelShape& shape) {
  auto options = model.weight_options();
  if (!options) return options;
  if (const auto packed = spec::packed_weights(shape, options->skipped); !packed) return packed.error();
  return options;
}

wire::ModelChoice model_choice(const spec::RunSpec& settings, spec::ElementType dtype) {
  const spec::ModelSpec& model = settings.model;
  return {.name = *model.path,
          .adapters = model.adapter_folders,
          .tokenizer = model.tokenizer,
          .random_weights = model.init == spec::WeightSource::random,
          .dtype = dtype,
          .weights = model.weight_options(),
          .attention = settings.system.attn_impl,
          .deterministic = settings.system.deterministic};
}

std::optional<std::string> only_adapter(const spec::ModelSpec& model) {
  return model.adapter_folders.empty() ? std::nullopt : std::optional(model.adapter_folders.front());
}

Result<void> check_one_adapter(const spec::ModelSpec& model) {
  if (model.adapter_folders.size() <= 1) return {};
  return bad_input(fmt::format("model.adapters names {} folders", model.adapter_folders.size()),
                   "name one; muster generate takes several");
}

Result<std::vector<spec::AdapterOptions>> given_adapters(const spec::ModelSpec& model, const spec::ModelShape& shape) {
  std::vector<spec::AdapterOptions> given;
  for (const std::string& folder : model.adapter_folders) {
    auto adapter = checkpoint::open_adapter(folder, shape);
    if (!adapter) return adapter.error();
    spec::AdapterOptions& options = adapter->config.options;
    if (model.adapter_folders.size() > 1 && !options.saved_modules.empty())
      return bad_input(fmt::format("{} has whole modules of its own ({}), which other adapters' prompts cannot share",
                                   folder, join(options.saved_modules, ", ")),
                       fmt::format("name it alone: --adapter {}", folder));
    given.push_back(std::move(options));
  }
  return given;
}

Result<std::optional<spec::AdapterOptions>> trained_adapters(const spec::ModelSpec& model,
                                                             const spec::ModelShape& shape) {
  std::optional<spec::AdapterOptions> options = model.adapters();
  if (!model.adapter_folders.empty() && options)
    return bad_input("model.use_lora begins a fresh adapter, and model.adapters names one to begin with",
                     "keep one of the two; an adapter's folder has its own rank, alpha and modules");
  if (auto checked = check_one_adapter(model); !checked) return checked.error();
  if (!model.adapter_folders.empty()) {
    auto given = given_adapters(model, shape);
    if (!given) return given.error();
    return std::optional(std::move(given->front()));
  }
  if (options)
    if (auto checked = spec::check_asked_modules(shape, *options); !checked) return checked.error();
  return options;
}

Result<void> count_adapters(plan::Question& question, std::span<const spec::AdapterOptions> adapters) {
  for (const spec::AdapterOptions& options : adapters) {
    question.model =
        std::make_shared<const spec::ModelDescription>(spec::beside_adapters(*question.model, options));
    const auto counted = plan::adapters_beside(question.model->shape, options);
    if (!counted) return counted.error();
    if (question.workload.adapters)
      plan::add(*question.workload.adapters, *counted);
    else
      question.workload.adapters = *counted;
  }
  return {};
}

bool replaces_modules(const spec::ModelSpec& model) {
  return std::ranges::any_of(model.adapter_folders, [](const std::string& folder) {
    const auto config = checkpoint::read_adapter_config(folder);  // another one is refused where it is opened
    return config && !config->options.saved_modules.empty();
  });
}

Result<std::vector<std::string>> adapter_words(const std::vector<std::string>& folders) {
  std::vector<std::string> words;
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder).lexically_normal();
    words.push_back((path.has_filename() ? path : path.parent_path()).filename().string());
    if (const auto same = std::ranges::find(words, words.back()); same != words.end() - 1)
      return bad_input(fmt::format("two adapters are called {}: {} and {}", words.back(),
                                   folders[static_cast<std::size_t>(same - words.begin())], folder),
                       "prompts choose adapters by the last part of their folder's path: rename one");
  }
  return words;
}

}  // namespace muster::job
