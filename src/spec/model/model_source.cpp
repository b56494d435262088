#include "spec/model/model_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/byte_count.hpp"
#include "system/files.hpp"
#include "system/regular_file.hpp"
#include "base/text.hpp"
#include "spec/model/adapters/adapted_modules.hpp"
#include "spec/model/checkpoint_config.hpp"
#include "spec/model/gguf_files.hpp"
#include "spec/model/gguf_rope.hpp"
#include "spec/model/quantized/gptq_zero_points.hpp"
#include "json/json_text.hpp"
#include "spec/model/published_models.hpp"
#include "spec/model/quantized/quantization_beside.hpp"
#include "spec/model/quantized/quantized_tensors.hpp"
#include "spec/model/safetensors_header.hpp"
#include "spec/model/tensor_check.hpp"

namespace muster::spec {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t longest_config = 16'000'000;
using Files = std::vector<CheckpointFile>;

Result<ModelConfig> read_config(const fs::path& path) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  if (file->size() > longest_config)
    return Error{Error::Kind::bad_input,
                 fmt::format("{}: {} bytes are too long for a config.json", path.string(), file->size()),
                 "name the model's config.json"};
  const auto text = file->beginning(file->size());
  if (!text) return text.error();
  auto config = parse_model_config(*text, path.string());
  if (!config || config->quantization) return config;
  const auto beside = read_quantization_beside(path.parent_path());
  if (!beside) return beside.error();
  config->quantization = *beside;
  return config;
}

std::vector<NamedSizes> sizes_of(const Files& files) {
  std::vector<NamedSizes> sizes;
  for (const CheckpointFile& file : files)
    for (const StoredTensor& tensor : file.header.tensors) sizes.push_back({tensor.name, tensor.dimensions});
  return sizes;
}

// The type that a quantised model computes in: its configuration's.
ElementType type_before_quantization(const ModelConfig& config) {
  return config.dtype && bytes_per_element(*config.dtype) > 1 ? *config.dtype : ElementType::bfloat16;
}

// The type with the most bytes among the floating-point ones.
std::optional<ElementType> main_type(const Files& files) {
  std::map<ElementType, std::uint64_t> bytes;
  for (const CheckpointFile& file : files)
    for (const StoredTensor& tensor : file.header.tensors)
      if (is_floating(tensor.type)) bytes[tensor.type] += tensor.end - tensor.begin;
  if (bytes.empty()) return std::nullopt;
  return std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; })->first;
}

std::int64_t total_bytes(const Files& files) {
  std::uint64_t bytes = 0;
  for (const CheckpointFile& file : files)
    for (const StoredTensor& tensor : file.header.tensors) bytes += tensor.end - tensor.begin;
  return static_cast<std::int64_t>(bytes);
}

// What checkpoints of these families hold besides the model: tables that older versions of transformers saved, and the
// second name of a tied tensor.
bool is_leftover(std::string_view name, const ModelConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias") ||
         ((config.tied || !config.predicts_tokens()) && name == "lm_head.weight");
}

// The names that the shape asks for. Checkpoints of the inner model alone have them without its name in front.
std::vector<NamedSizes> wanted_tensors(const ModelShape& shape, const std::vector<NamedSizes>& held) {
  const std::string prefix = shape.modules[1].name + ".";
  const bool shortened =
      std::ranges::none_of(held, [&](const auto& tensor) { return tensor.name.starts_with(prefix); });
  std::vector<NamedSizes> wanted;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const TensorShape& tensor = shape.tensors[i];
    if (tensor.kind == TensorKind::derived || tensor.same_as) continue;
    std::string path = shape.path(TensorId{i});
    if (shortened && path.starts_with(prefix)) path.erase(0, prefix.size());
    wanted.push_back({std::move(path), tensor.dimensions});
  }
  return wanted;
}

// Tensors that the checkpoint has but the model has no place for.
Result<std::vector<std::string>> unplaced_tensors(const ModelDescription& model, const Files& files) {
  const std::vector<NamedSizes> held = sizes_of(files);
  const std::string source = files.size() == 1 ? files[0].path.string() : files[0].path.parent_path().string();
  auto extra = compare_tensors(wanted_tensors(model.shape, held), held, source);
  if (extra) std::erase_if(*extra, [&](const std::string& name) { return is_leftover(name, model.config); });
  return extra;
}

ModelDescription describe(const std::string& name, const ModelConfig& config, const Files& files,
                          std::optional<ElementType> dtype) {
  ModelDescription model;
  model.name = name;
  model.config = config;
  if (!dtype && config.quantization) dtype = type_before_quantization(config);
  if (!dtype) dtype = main_type(files);
  if (!dtype) dtype = config.dtype;
  model.dtype = dtype.value_or(ElementType::float32);
  model.shape = build_shape(config, model.dtype);
  if (!files.empty()) model.checkpoint_bytes = total_bytes(files);
  return model;
}

// The same of a quantised checkpoint. What belongs to its codes has a place; which weights they are is noted in the model.
Result<std::vector<std::string>> unplaced_quantized_tensors(ModelDescription& model, const Files& files) {
  auto found = find_quantized_tensors(model.shape, *model.config.quantization, files);
  if (!found) return found.error();
  for (const QuantizedMatrix& matrix : found->matrices)
    if (matrix.packing) model.codes.emplace(matrix.name, *matrix.packing);
  leave_out_parted_groups(model.shape, model.codes);
  std::erase_if(found->extra, [&](const std::string& name) { return is_leftover(name, model.config); });
  return std::move(found->extra);
}

// What bitsandbytes codes of a model that is quantised so, where there is a configuration alone.
Result<void> expect_codes(ModelDescription& model) {
  if (!model.config.quantization) return {};
  const auto* method = std::get_if<BitsAndBytesQuantization>(&*model.config.quantization);
  if (method == nullptr) return {};
  const auto weights = packable_weights(model.shape, method->skipped);
  if (!weights) return weights.error();
  for (const TensorId id : *weights) {
    const std::int64_t inputs = model.shape.at(id).dimensions.sizes[model.shape.is_transposed(id) ? 0 : 1];
    if (method->packing.bits() == 8 || inputs % method->packing.run == 0)
      model.codes.emplace(model.shape.path(id), method->packing);
  }
  leave_out_parted_groups(model.shape, model.codes);
  return {};
}

Result<void> note_quantization(ModelDescription& model, const Files& files) {
  const CheckpointQuantization& quantization = *model.config.quantization;
  model.notes.push_back(fmt::format("the checkpoint's weights are quantised by {}, {}; {}", method_name(quantization),
                                    to_string(ByteCount{*model.checkpoint_bytes}),
                                    model.codes.empty()
                                        ? fmt::format("they are dequantised to {}", spec::name(model.dtype))
                                        : "they are computed with as they are, unless they are trained themselves"));
  const auto* method = std::get_if<GptqQuantization>(&quantization);
  if (method == nullptr) return {};
  const auto doubtful = has_doubtful_zero_points(*method, files);
  if (!doubtful) return doubtful.error();
  if (*doubtful)
    model.notes.push_back(
        "some zero points of its asymmetric GPTQ weights are all ones, which programs read differently in this format "
        "(gptq, the first version): they count as 0; the same model in gptq_v2 would be certain");
  return {};
}

// A model whose configuration is known, with its checkpoint files, if any.
Result<ModelDescription> from_config(const std::string& name, const ModelConfig& config, const Files& files,
                                     std::optional<ElementType> dtype) {
  ModelDescription model = describe(name, config, files, dtype);
  if (files.empty()) {
    if (auto expected = expect_codes(model); !expected) return expected.error();
    return model;
  }
  const bool quantized = config.quantization.has_value();
  const auto extra = quantized ? unplaced_quantized_tensors(model, files) : unplaced_tensors(model, files);
  if (!extra) return extra.error();
  if (quantized)
    if (auto noted = note_quantization(model, files); !noted) return noted.error();
  if (!extra->empty())
    model.notes.push_back(
        fmt::format("{} tensors of the checkpoint have no place in the model and are left out, the first {}",
                    extra->size(), shown(nlohmann::json(extra->front()))));
  return model;
}

// A model for which only checkpoint files exist.
Result<ModelDescription> from_tensors(const std::string& name, const Files& files, std::optional<ElementType> dtype) {
  const std::string source = files[0].path.string();
  auto derived = config_from_tensors(sizes_of(files), source);
  if (!derived) return derived.error();
  derived->config.dtype = main_type(files);
  ModelDescription model = describe(name, derived->config, files, dtype);
  model.notes = derived->notes;
  const auto extra = unplaced_tensors(model, files);
  if (!extra) return extra.error();
  if (extra->empty()) return model;
  return Error{Error::Kind::bad_input,
               fmt::format("{}: there is no config.json, and {} is not of a known family", source,
                           shown(nlohmann::json(extra->front()))),
               "put the model's config.json beside it"};
}

// What to name instead of a folder: the model of an adapter, or the first file in it.
std::string remedy_for(const fs::path& folder) {
  if (path_exists(folder / "adapter_config.json"))
    return "it is the folder of an adapter: name its model, and where one is taken the adapter with --adapter";
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure))
    if (entry->path().extension() == ".gguf" || entry->path().extension() == ".safetensors")
      names.push_back(entry->path().string());
  if (!names.empty()) return fmt::format("name the file: {}", std::ranges::min(names));
  return "name the folder that holds them or a .gguf file (muster plan also takes a size alone: --params 7B)";
}

// The configuration comes first: what it says about the checkpoint (quantised, say) explains what its files hold.
Result<ModelDescription> from_folder(const std::string& name, const fs::path& folder,
                                     std::optional<ElementType> dtype) {
  std::optional<ModelConfig> config;
  if (path_exists(folder / "config.json")) {
    const auto read = read_config(folder / "config.json");
    if (!read) return read.error();
    config = *read;
  }
  const auto files = read_checkpoint_headers(folder);
  if (!files) return files.error();
  if (config) return from_config(name, *config, *files, dtype);
  if (!files->empty()) return from_tensors(name, *files, dtype);
  return Error{
      Error::Kind::bad_input,
      fmt::format("{} holds no config.json, no model.safetensors and no model.safetensors.index.json", folder.string()),
      remedy_for(folder)};
}

Result<ModelDescription> from_config_file(const std::string& name, const fs::path& file,
                                          std::optional<ElementType> dtype) {
  const auto config = read_config(file);
  if (!config) return config.error();
  return from_config(name, *config, {}, dtype);
}

// Whether a checkpoint consists of several files, of which this is one.
bool is_part(const fs::path& file, const Files& checkpoint) {
  return checkpoint.size() > 1 && std::ranges::any_of(checkpoint, [&](const CheckpointFile& other) {
           return other.path.filename() == file.filename();
         });
}

Result<ModelDescription> from_safetensors(const std::string& name, const fs::path& file,
                                          std::optional<ElementType> dtype) {
  if (file.filename() != "model.safetensors") {
    const auto checkpoint = read_checkpoint_headers(file.parent_path());
    if (!checkpoint) return checkpoint.error();
    if (is_part(file, *checkpoint)) return from_folder(name, file.parent_path(), dtype);
  }
  auto header = read_safetensors_header(file);
  if (!header) return header.error();
  Files files;
  files.push_back({file, std::move(*header)});
  const fs::path beside = file.parent_path() / "config.json";
  if (!path_exists(beside)) return from_tensors(name, files, dtype);
  const auto config = read_config(beside);
  if (!config) return config.error();
  return from_config(name, *config, files, dtype);
}

// The type to plan with for an encoding: itself, or float16, which blocks are unpacked to.
ElementType unpacked(GgufType type) {
  if (type == GgufType::f32) return ElementType::float32;
  return type == GgufType::bf16 ? ElementType::bfloat16 : ElementType::float16;
}

struct GgufSizes {
  GgufType main = GgufType::f32;  // of most bytes
  std::int64_t bytes = 0;
};

GgufSizes sizes_of(const GgufHeader& header) {
  std::map<GgufType, std::uint64_t> bytes;
  GgufSizes sizes;
  for (const GgufTensor& tensor : header.tensors) {
    bytes[tensor.type] += tensor.end - tensor.begin;
    sizes.bytes += static_cast<std::int64_t>(tensor.end - tensor.begin);
  }
  if (!bytes.empty())
    sizes.main = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; })->first;
  return sizes;
}

Result<ModelDescription> from_gguf(const std::string& name, const fs::path& file, std::optional<ElementType> dtype) {
  const auto files = read_gguf_files(file);
  if (!files) return files.error();
  auto config = gguf_model_config(files->header, file.string());
  if (!config) return config.error();
  const auto factors = read_rope_factors(*files);
  if (!factors) return factors.error();
  if (const auto taken = take_rope_factors(*factors, file.string(), *config); !taken) return taken.error();
  const GgufSizes sizes = sizes_of(files->header);
  config->dtype = unpacked(sizes.main);
  ModelDescription model = describe(name, *config, {}, dtype);
  if (const auto checked = check_gguf_tensors(model.shape, files->header, file.string()); !checked) return checked.error();
  model.checkpoint_bytes = sizes.bytes;
  if (block_of(sizes.main).elements > 1)
    model.notes.push_back(fmt::format("the file's weights are {}, {}; they are dequantised to {}",
                                      spec::name(sizes.main), to_string(ByteCount{sizes.bytes}),
                                      spec::name(model.dtype)));
  return model;
}

Result<ModelDescription> from_file(const std::string& name, const fs::path& file, std::optional<ElementType> dtype) {
  const std::string extension = to_lower(file.extension().string());
  if (extension == ".json") return from_config_file(name, file, dtype);
  if (extension == ".safetensors") return from_safetensors(name, file, dtype);
  if (extension == ".gguf") return from_gguf(name, file, dtype);
  return Error{Error::Kind::bad_input,
               fmt::format("{} is not a file that a model can be read from{}", file.string(),
                           extension == ".bin" || extension == ".pt" || extension == ".pth"
                               ? ": pickled checkpoints can run code and are not opened"
                               : ""),
               "accepted: a folder, config.json, .safetensors, .gguf"};
}

}  // namespace

Result<ModelDescription> read_model(const std::string& model, const ModelSearch& search,
                                    std::optional<ElementType> dtype) {
  const auto path = find_model(model, search);
  if (!path) return path.error();
  std::error_code ignored;
  return fs::is_directory(*path, ignored) ? from_folder(model, *path, dtype) : from_file(model, *path, dtype);
}

ModelDescription beside_adapters(ModelDescription model, const AdapterOptions& options) {
  if (!model.config.tied || !parts_tied(model.shape, options)) return model;
  model.config.tied = false;
  model.shape = build_shape(model.config, model.dtype);
  return model;
}

ModelDescription with_score_head(ModelDescription model, const ScoreHead& head) {
  model.config.score = model.fresh_head = head;
  if (head.is_alone()) model.config.tied = false;
  model.shape = build_shape(model.config, model.dtype);
  return model;
}

Result<ModelDescription> model_of_size(std::int64_t parameters, std::optional<ElementType> dtype) {
  if (parameters < smallest_typical || parameters > largest_typical)
    return Error{Error::Kind::bad_input,
                 fmt::format("{} parameters are beyond what a typical model is known for", parameters),
                 "accepted: from 1M to 10T"};
  ModelConfig config = typical_config(parameters);
  config.remainder = parameters - build_shape(config, ElementType::float32).parameter_count();
  ModelDescription model = describe(fmt::format("{} parameters", parameters), config, {}, dtype);
  model.typical = true;
  model.notes.push_back(fmt::format(
      "a typical model, shaped like {}: {} layers, hidden size {}, {} heads ({} of keys and values), vocabulary of {}",
      nearest_published(parameters).name, config.layers, config.hidden, config.heads, config.kv_heads,
      config.vocabulary));
  return model;
}

}  // namespace muster::spec
