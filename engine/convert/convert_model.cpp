#include "convert/convert_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "checkpoint/checkpoint_writer.hpp"
#include "checkpoint/export_model.hpp"
#include "checkpoint/model_texts.hpp"
#include "checkpoint/number_conversion.hpp"
#include "convert/quantization_config.hpp"
#include "convert/weight_coder.hpp"
#include "json/json_text.hpp"
#include "spec/model/model_source.hpp"
#include "spec/model/quantized/packed_modules.hpp"
#include "system/disk_space.hpp"

namespace muster::convert {
namespace {

using checkpoint::TensorDeclaration;
using checkpoint::TensorSlice;
using checkpoint::TensorSource;

constexpr std::int64_t copied_part_bytes = std::int64_t{16} << 20;

// What the folder will hold, known before any number is read.
struct FolderPlan {
  std::vector<checkpoint::NamedText> texts;
  std::vector<TensorDeclaration> wide;  // copied
  std::vector<CodedWeight> coded;
  std::vector<TensorDeclaration> tensors;  // all that are written, in the order of the model

  ByteCount read_bytes() const {
    ByteCount total;
    for (const TensorDeclaration& tensor : wide)
      total.value += tensor.dimensions.elements() * spec::bytes_per_element(tensor.type);
    for (const CodedWeight& weight : coded)
      total.value += weight.elements() * spec::bytes_per_element(weight.coded_from);
    return total;
  }
  ByteCount written_bytes() const {
    ByteCount total;
    for (const TensorDeclaration& tensor : tensors)
      total.value += tensor.dimensions.elements() * spec::bytes_per_element(tensor.type);
    return total;
  }
};

std::string words_of(const spec::WeightPacking& packing) {
  for (const auto& [word, code] : spec::words(spec::PackedCode{}))
    if (code == packing.code)
      return fmt::format("{}{}", word, packing.double_quantized ? " with quantised scales" : "");
  return {};
}

Result<void> check_request(const ConversionRequest& request, const spec::ModelDescription& model) {
  if (!checkpoint::is_convertible(model.dtype))
    return Error{Error::Kind::bad_input, fmt::format("weights cannot be written as {}", spec::name(model.dtype)),
                 "accepted: float32, float16, bfloat16"};
  if (!request.form || !model.config.quantization) return {};
  const auto* held = std::get_if<spec::BitsAndBytesQuantization>(&*model.config.quantization);
  if (held == nullptr || held->packing != request.form->packing) return {};
  return Error{Error::Kind::bad_input,
               fmt::format("{} has its weights in {} already", request.model, words_of(held->packing)),
               "use it as it is, or name another --to"};
}

CodedWeight coded_weight(const spec::ModelShape& shape, spec::TensorId id, const spec::WeightPacking& packing,
                         spec::ElementType type) {
  const auto& sizes = shape.at(id).dimensions.sizes;
  const bool transposed = shape.is_transposed(id);
  return {.name = shape.path(id),
          .rows = sizes[transposed ? 1 : 0],
          .columns = sizes[transposed ? 0 : 1],
          .transposed = transposed,
          .packing = packing,
          .coded_from = type == spec::ElementType::float64 ? spec::ElementType::float32 : type};
}

// A list of skipped modules is all that transformers leaves wide: the head must be on it, as it is on its own.
std::optional<std::vector<std::string>> named_in_config(const spec::WeightOptions& form,
                                                        const spec::ModelShape& shape) {
  if (form.skipped.empty()) return std::nullopt;
  std::vector<std::string> names = form.skipped;
  for (const spec::TensorRole role : {spec::TensorRole::head, spec::TensorRole::score})
    if (const auto head = shape.find(role, std::nullopt)) {
      const std::string module = shape.path(shape.at(*head).owner);
      if (std::ranges::find(names, module) == names.end()) names.push_back(module);
    }
  return names;
}

Result<void> name_form(std::vector<checkpoint::NamedText>& texts, const spec::WeightOptions& form,
                       const spec::ModelDescription& model) {
  const auto config = std::ranges::find(texts, "config.json", &checkpoint::NamedText::name);
  auto object = parse_ordered_json_object(config->text, "config.json");
  if (!object) return object.error();
  (*object)["quantization_config"] =
      quantization_config(form.packing, model.dtype, named_in_config(form, model.shape));
  config->text = object->dump(2) + "\n";
  return {};
}

// GGUF's plain numbers have names of their own.
bool is_quantised(const checkpoint::TensorEntry& entry) {
  constexpr std::array<std::string_view, 4> plain{"F64", "F32", "F16", "BF16"};
  return !entry.element_type && std::ranges::find(plain, entry.stored_as) == plain.end();
}

using CodedByName = std::map<std::string, CodedWeight, std::less<>>;

Result<CodedByName> weights_to_code(const ConversionRequest& request, const spec::ModelDescription& model) {
  CodedByName coded;
  if (!request.form) return coded;
  const auto weights = spec::packable_weights(model.shape, request.form->skipped);
  if (!weights) return weights.error();
  for (const spec::TensorId id : *weights) {
    CodedWeight weight = coded_weight(model.shape, id, request.form->packing, model.dtype);
    coded.emplace(weight.name, std::move(weight));
  }
  if (coded.empty())
    return Error{Error::Kind::bad_input, fmt::format("--skip-modules leaves no module of {} to quantise", request.model),
                 "skip fewer, or leave --to away"};
  return coded;
}

Result<FolderPlan> plan_folder(const ConversionRequest& request, const std::filesystem::path& path,
                               const spec::ModelDescription& model) {
  const auto coded = weights_to_code(request, model);
  if (!coded) return coded.error();
  auto texts = checkpoint::texts_of_model(path, model.dtype);
  if (!texts) return texts.error();
  FolderPlan plan{.texts = std::move(*texts), .wide = {}, .coded = {}, .tensors = {}};
  if (request.form)
    if (auto named = name_form(plan.texts, *request.form, model); !named) return named.error();
  for (TensorDeclaration& tensor : checkpoint::tensors_to_export(model.shape, model.dtype)) {
    const auto weight = coded->find(tensor.name);
    if (weight == coded->end()) {
      plan.tensors.push_back(tensor);
      plan.wide.push_back(std::move(tensor));
      continue;
    }
    std::ranges::move(parts_of(weight->second), std::back_inserter(plan.tensors));
    plan.coded.push_back(weight->second);
  }
  return plan;
}

// In parts of whole rows, so that no more than one part is held.
Result<void> copy_tensor(const TensorSource& source, const TensorDeclaration& tensor,
                         checkpoint::CheckpointWriter& writer, const std::function<void(std::size_t)>& advance) {
  const auto& [sizes, rank] = tensor.dimensions;
  const std::int64_t rows = rank == 2 ? sizes[0] : 1;
  const std::int64_t row_bytes =
      tensor.dimensions.elements() / std::max<std::int64_t>(1, rows) * spec::bytes_per_element(tensor.type);
  const std::int64_t step = std::max<std::int64_t>(1, copied_part_bytes / std::max<std::int64_t>(1, row_bytes));
  std::vector<std::byte> part;
  for (std::int64_t row = 0; row < rows; row += step) {
    const std::int64_t count = std::min(step, rows - row);
    part.resize(static_cast<std::size_t>(count * row_bytes));
    const TensorSlice slice = rank == 2 ? TensorSlice{.first_row = row, .rows = count} : TensorSlice{};
    if (auto read = source.read(tensor.name, slice, tensor.type, part); !read) return read;
    if (auto put = writer.write_part(tensor.name, static_cast<std::uint64_t>(row * row_bytes), part); !put) return put;
    advance(part.size());
  }
  return {};
}

Result<void> write_tensors(const FolderPlan& plan, const TensorSource& source, const ConversionRequest& request,
                           checkpoint::CheckpointWriter& writer) {
  const ByteCount total = plan.read_bytes();
  ByteCount done;
  const auto advance = [&](std::size_t bytes) {
    done.value += static_cast<std::int64_t>(bytes);
    if (request.progress) request.progress(done, total);
  };
  for (const TensorDeclaration& tensor : plan.wide)
    if (auto copied = copy_tensor(source, tensor, writer, advance); !copied) return copied;
  if (plan.coded.empty()) return {};
  WeightCoder coder(source, writer, request.threads, advance);
  for (const CodedWeight& weight : plan.coded)
    if (auto coded = coder.code(weight); !coded) return coded;
  return {};
}

Result<void> check_room(const FolderPlan& plan, const std::filesystem::path& folder) {
  ByteCount needed = plan.written_bytes();
  needed.value += mebibytes(1).value;  // for headers
  for (const checkpoint::NamedText& text : plan.texts) needed.value += std::ssize(text.text);
  return DiskWait(std::chrono::milliseconds{0}).until_free(folder, needed, folder.string());
}

Result<void> write_folder(const FolderPlan& plan, const TensorSource& source, const ConversionRequest& request) {
  if (auto room = check_room(plan, request.folder); !room) return room;
  auto writer = checkpoint::CheckpointWriter::create(request.folder, plan.tensors, request.shard_size);
  if (!writer) return writer.error();
  if (auto written = write_tensors(plan, source, request, *writer); !written) return written;
  for (const auto& [file, text] : plan.texts)
    if (auto added = writer->add_file(file, text); !added) return added;
  return writer->finish();
}

}  // namespace

Result<Conversion> convert_model(const ConversionRequest& request, const spec::ModelSearch& search) {
  const auto path = spec::find_model(request.model, search);
  if (!path) return path.error();
  const auto model = spec::read_model(request.model, search, request.dtype);
  if (!model) return model.error();
  if (auto checked = check_request(request, *model); !checked) return checked.error();
  const auto source = checkpoint::open_checkpoint(request.model, search);
  if (!source) return source.error();
  const auto plan = plan_folder(request, *path, *model);
  if (!plan) return plan.error();
  if (auto written = write_folder(*plan, **source, request); !written) return written.error();
  Conversion done{.dtype = model->dtype,
                  .parameters = model->shape.parameter_count(),
                  .bytes = plan->written_bytes(),
                  .tensors = plan->tensors.size(),
                  .quantised = plan->coded.size(),
                  .dequantised = {}};
  for (const checkpoint::TensorEntry& entry : (*source)->tensors())
    if (is_quantised(entry) && std::ranges::find(done.dequantised, entry.stored_as) == done.dequantised.end())
      done.dequantised.emplace_back(entry.stored_as);
  return done;
}

}  // namespace muster::convert
