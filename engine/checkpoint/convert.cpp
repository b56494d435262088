#include "checkpoint/convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "checkpoint/gguf_source.hpp"
#include "checkpoint/gguf_tokenizer.hpp"
#include "checkpoint/number_conversion.hpp"
#include "spec/model_config_writer.hpp"
#include "spec/model_source.hpp"

namespace muster::checkpoint {
namespace {

constexpr std::size_t part_bytes = std::size_t{16} << 20;

// The files beside the tensors.
struct FolderTexts {
  std::string config, generation, tokenizer, tokenizer_config, chat_template;
};

Result<FolderTexts> make_texts(const spec::GgufHeader& header, const spec::ModelConfig& config,
                               const std::string& source) {
  const auto ids = gguf_token_ids(header, source);
  if (!ids) return ids.error();
  auto written = spec::write_model_config(config, *ids);
  if (!written) return written.error();
  auto tokenizer = gguf_tokenizer_json(header, source);
  if (!tokenizer) return tokenizer.error();
  auto tokenizer_config = gguf_tokenizer_config_json(header, source);
  if (!tokenizer_config) return tokenizer_config.error();
  auto chat_template = gguf_chat_template(header, source);
  if (!chat_template) return chat_template.error();
  return FolderTexts{std::move(*written), spec::write_generation_config(*ids), std::move(*tokenizer),
                     std::move(*tokenizer_config), std::move(*chat_template)};
}

Result<void> add_texts(CheckpointWriter& writer, const FolderTexts& texts) {
  struct Row {
    std::string_view name;
    const std::string& text;
  };
  for (const auto& [name, text] :
       {Row{"config.json", texts.config}, Row{"generation_config.json", texts.generation},
        Row{"tokenizer.json", texts.tokenizer}, Row{"tokenizer_config.json", texts.tokenizer_config},
        Row{"chat_template.jinja", texts.chat_template}}) {
    if (text.empty()) continue;
    if (auto added = writer.add_file(name, text); !added) return added;
  }
  return {};
}

// In parts of whole rows, so that no more than one part is held.
Result<void> copy_tensor(const GgufSource& source, const TensorDeclaration& tensor, CheckpointWriter& writer,
                         const std::function<void(std::size_t)>& advance) {
  const auto& [sizes, rank] = tensor.dimensions;
  const std::int64_t rows = rank == 2 ? sizes[0] : 1;
  const std::int64_t row_bytes =
      tensor.dimensions.elements() / std::max<std::int64_t>(1, rows) * spec::bytes_per_element(tensor.type);
  const std::int64_t step =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(part_bytes) / std::max<std::int64_t>(1, row_bytes));
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

Result<ByteCount> copy_tensors(const GgufSource& source, const std::vector<TensorDeclaration>& tensors,
                               CheckpointWriter& writer, const ConversionRequest& request) {
  ByteCount total, done;
  for (const TensorDeclaration& tensor : tensors)
    total.value += tensor.dimensions.elements() * spec::bytes_per_element(tensor.type);
  const auto advance = [&](std::size_t bytes) {
    done.value += static_cast<std::int64_t>(bytes);
    if (request.progress) request.progress(done, total);
  };
  for (const TensorDeclaration& tensor : tensors)
    if (const auto copied = copy_tensor(source, tensor, writer, advance); !copied) return copied.error();
  return total;
}

Result<void> check_request(const ConversionRequest& request) {
  if (to_lower(request.file.extension().string()) != ".gguf")
    return Error{Error::Kind::bad_input, fmt::format("{} is no .gguf file", request.file.string()),
                 "muster model convert FILE.gguf FOLDER"};
  if (request.dtype && !is_convertible(*request.dtype))
    return Error{Error::Kind::bad_input, fmt::format("weights cannot be written as {}", spec::name(*request.dtype)),
                 "accepted: float32, float16, bfloat16"};
  return {};
}

}  // namespace

Result<Conversion> convert_gguf(const ConversionRequest& request) {
  if (const auto checked = check_request(request); !checked) return checked.error();
  const std::string name = request.file.string();
  auto model = spec::read_model(name, {}, request.dtype);
  if (!model) return model.error();
  const auto header = spec::read_gguf_header(request.file);
  if (!header) return header.error();
  model->config.dtype = model->dtype;
  const auto texts = make_texts(*header, model->config, name);
  if (!texts) return texts.error();
  const auto source = GgufSource::open(request.file, *model);
  if (!source) return source.error();
  std::vector<TensorDeclaration> tensors;
  for (const TensorEntry& entry : (*source)->tensors()) tensors.push_back({entry.name, model->dtype, entry.dimensions});
  auto writer = CheckpointWriter::create(request.folder, tensors, request.shard_size);
  if (!writer) return writer.error();
  const auto bytes = copy_tensors(**source, tensors, *writer, request);
  if (!bytes) return bytes.error();
  if (const auto added = add_texts(*writer, *texts); !added) return added.error();
  if (const auto finished = writer->finish(); !finished) return finished.error();
  return Conversion{model->dtype, model->shape.parameter_count(), *bytes, tensors.size()};
}

}  // namespace muster::checkpoint
