#include "checkpoint/adapters/adapter_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "checkpoint/safetensors_source.hpp"
#include "spec/model/tensor_check.hpp"
#include "system/files.hpp"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;

// What PEFT puts before the path of a module.
constexpr std::string_view peft_prefix = "base_model.model.";
constexpr std::string_view adapter_weights = "adapter_model";

std::string peft_name(std::string_view name) { return fmt::format("{}{}", peft_prefix, name); }

Result<fs::path> weights_file(const fs::path& folder) {
  const fs::path file = folder / fmt::format("{}.safetensors", adapter_weights);
  if (path_exists(file)) return file;
  const fs::path pickled = folder / fmt::format("{}.bin", adapter_weights);
  if (path_exists(pickled))
    return Error{Error::Kind::refused,
                 fmt::format("{} is a pickle, which can run any program when it is read", pickled.string()),
                 "load it with PEFT where you trust it, and save it again: save_pretrained(folder, "
                 "safe_serialization=True)"};
  return bad_input(fmt::format("{} holds no {}", folder.string(), file.filename().string()),
                   "name the folder that PEFT's save_pretrained wrote");
}

// The adapter for the base, as far as its configuration says; tensors are still to come.
Result<AdapterFolder> adapter_of(spec::AdapterConfig config, const spec::ModelShape& base) {
  AdapterFolder adapter;
  auto modules = spec::adapted_modules(base, config.options);
  if (!modules) return modules.error();
  auto saved = spec::saved_parameters(base, config.options);
  if (!saved) return saved.error();
  adapter.config = std::move(config);
  adapter.modules = std::move(*modules);
  adapter.saved = std::move(*saved);
  return adapter;
}

std::vector<spec::AdapterTensor> tensors_of(const AdapterFolder& adapter, const spec::ModelShape& base) {
  return spec::adapter_tensors(base, adapter.config.options, adapter.modules, adapter.saved);
}

// What the file holds is what the adapter asks for.
Result<void> check_tensors(const std::vector<spec::AdapterTensor>& wanted, const spec::SafetensorsHeader& header,
                           const std::string& file) {
  std::vector<spec::NamedSizes> asked, held;
  for (const spec::AdapterTensor& tensor : wanted) asked.push_back({peft_name(tensor.name), tensor.dimensions});
  for (const spec::StoredTensor& tensor : header.tensors) held.push_back({tensor.name, tensor.dimensions});
  const auto extra = spec::compare_tensors(asked, held, file);
  if (!extra)
    return Error{Error::Kind::bad_input, extra.error().what, "check that the adapter is for this model, and for this size of it"};
  if (extra->empty()) return {};
  constexpr std::size_t most = 4;
  const auto first = std::span(*extra).first(std::min(most, extra->size()));
  return bad_input(fmt::format("{}: {} that adapter_config.json does not ask for: {}{}", file,
                               extra->size() == 1 ? "a tensor" : fmt::format("{} tensors", extra->size()),
                               join(first, ", "), extra->size() > most ? ", …" : ""),
                   "check that both files are of the same adapter, and that the adapter is for this model");
}

}  // namespace

Result<spec::AdapterConfig> read_adapter_config(const fs::path& folder) {
  const fs::path file = folder / "adapter_config.json";
  if (!path_exists(file))
    return bad_input(fmt::format("{} is not the folder of an adapter: it holds no adapter_config.json", folder.string()),
                     "name the folder that PEFT's save_pretrained wrote");
  const auto text = read_file(file);
  if (!text) return text.error();
  return spec::parse_adapter_config(*text, file.string());
}

Result<AdapterFolder> open_adapter(const fs::path& folder, const spec::ModelShape& base) {
  auto config = read_adapter_config(folder);
  if (!config) return config.error();
  const auto file = weights_file(folder);
  if (!file) return file.error();
  auto adapter = adapter_of(std::move(*config), base);
  if (!adapter) return Error{adapter.error().kind, fmt::format("{}: {}", folder.string(), adapter.error().what),
                             "check that the adapter is for this model"};
  auto header = spec::read_safetensors_header(*file);
  if (!header) return header.error();
  const auto wanted = tensors_of(*adapter, base);
  if (const auto checked = check_tensors(wanted, *header, file->string()); !checked) return checked.error();
  std::vector<NamedTensor> names;
  for (const spec::AdapterTensor& tensor : wanted) names.push_back({tensor.name, peft_name(tensor.name)});
  std::vector<spec::CheckpointFile> files;
  files.push_back({*file, std::move(*header)});
  auto source = SafetensorsSource::open(files, names);
  if (!source) return source.error();
  adapter->tensors = std::move(*source);
  return adapter;
}

Result<std::optional<spec::ScoreHead>> score_head_of(const fs::path& folder) {
  const auto config = read_adapter_config(folder);
  if (!config) return config.error();
  if (config->task != spec::classification_task) return std::optional<spec::ScoreHead>();
  const auto file = weights_file(folder);
  if (!file) return file.error();
  const auto header = spec::read_safetensors_header(*file);
  if (!header) return header.error();
  for (const spec::StoredTensor& tensor : header->tensors)
    if (tensor.name == peft_name("score.weight"))
      return std::optional(spec::ScoreHead{spec::ScoreUse::sequences, tensor.dimensions.sizes[0]});
  return std::optional<spec::ScoreHead>();
}

Result<std::vector<TensorDeclaration>> tensors_of_adapter(const spec::ModelShape& base,
                                                          const spec::AdapterOptions& options) {
  const auto adapter = adapter_of({.options = options}, base);
  if (!adapter) return adapter.error();
  std::vector<TensorDeclaration> tensors;
  for (const spec::AdapterTensor& tensor : tensors_of(*adapter, base))
    tensors.push_back({tensor.name, spec::ElementType::float32, tensor.dimensions});
  return tensors;
}

Result<ByteCount> write_adapter(const AdapterExport& request, const spec::ModelShape& base, const PullTensor& pull) {
  auto adapter = adapter_of(request.config, base);
  if (!adapter) return adapter.error();
  spec::AdapterConfig config = request.config;
  spec::AdapterOptions& options = config.options;
  if (options.targets.empty() || (options.targets.size() == 1 && to_lower(options.targets[0]) == "all-linear"))
    options.targets = spec::target_names(base, options, adapter->modules);
  config.transposed =
      std::ranges::any_of(adapter->modules, [&](const auto& module) { return base.is_transposed(module.weight); });
  ExportRequest folder{.folder = request.folder,
                       .replace = request.replace,
                       .texts = request.texts,
                       .tensors = {},
                       .shard_size = {std::numeric_limits<std::int64_t>::max()},
                       .stem = std::string(adapter_weights)};
  folder.texts.push_back({"adapter_config.json", spec::write_adapter_config(config)});
  for (const spec::AdapterTensor& tensor : tensors_of(*adapter, base))
    folder.tensors.push_back({peft_name(tensor.name), spec::ElementType::float32, tensor.dimensions});
  return export_model(folder, [&](const TensorDeclaration& tensor, std::span<std::byte> out) {
    return pull({tensor.name.substr(peft_prefix.size()), tensor.type, tensor.dimensions}, out);
  });
}

Result<ByteCount> write_adapter(const AdapterExport& request, const spec::ModelShape& base, const TensorSource& source) {
  return write_adapter(request, base, [&](const TensorDeclaration& tensor, std::span<std::byte> out) {
    return source.read(tensor.name, {}, tensor.type, out);
  });
}

}  // namespace muster::checkpoint
