#include "checkpoint/convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "checkpoint/gguf_source.hpp"
#include "checkpoint/model_texts.hpp"
#include "checkpoint/number_conversion.hpp"
#include "spec/model/model_source.hpp"

namespace muster::checkpoint {
namespace {

constexpr std::size_t converted_part_bytes = std::size_t{16} << 20;

// In parts of whole rows, so that no more than one part is held.
Result<void> copy_tensor(const GgufSource& source, const TensorDeclaration& tensor, CheckpointWriter& writer,
                         const std::function<void(std::size_t)>& advance) {
  const auto& [sizes, rank] = tensor.dimensions;
  const std::int64_t rows = rank == 2 ? sizes[0] : 1;
  const std::int64_t row_bytes =
      tensor.dimensions.elements() / std::max<std::int64_t>(1, rows) * spec::bytes_per_element(tensor.type);
  const std::int64_t step =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(converted_part_bytes) / std::max<std::int64_t>(1, row_bytes));
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
    return Error{Error::Kind::bad_input, fmt::format("{} is not a .gguf file", request.file.string()),
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
  const auto texts = texts_of_gguf(*header, model->config, name);
  if (!texts) return texts.error();
  const auto source = GgufSource::open(request.file, *model);
  if (!source) return source.error();
  std::vector<TensorDeclaration> tensors;
  for (const TensorEntry& entry : (*source)->tensors()) tensors.push_back({entry.name, model->dtype, entry.dimensions});
  auto writer = CheckpointWriter::create(request.folder, tensors, request.shard_size);
  if (!writer) return writer.error();
  const auto bytes = copy_tensors(**source, tensors, *writer, request);
  if (!bytes) return bytes.error();
  for (const auto& [file, text] : *texts)
    if (const auto added = writer->add_file(file, text); !added) return added.error();
  if (const auto finished = writer->finish(); !finished) return finished.error();
  return Conversion{model->dtype, model->shape.parameter_count(), *bytes, tensors.size()};
}

}  // namespace muster::checkpoint
