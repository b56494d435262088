#include "checkpoint/quantized/quantized_source.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/number_conversion.hpp"

namespace muster::checkpoint {
namespace {

// Elements that are decoded at once.
constexpr std::int64_t decoded_elements = std::int64_t{1} << 18;

// Plain tensors first, then all that the files hold under its own name.
std::vector<NamedTensor> offered_names(const spec::QuantizedTensors& tensors,
                                       const std::vector<spec::CheckpointFile>& files) {
  std::vector<NamedTensor> names;
  for (const spec::PlainTensor& tensor : tensors.plain) names.push_back({tensor.name, tensor.stored_name});
  for (const spec::CheckpointFile& file : files)
    for (const spec::StoredTensor& tensor : file.header.tensors) names.push_back({tensor.name, tensor.name});
  return names;
}

// A slice of a matrix as it was quantised, and where its numbers go.
struct DecodedSlice {
  MatrixTile whole;
  bool transposed = false;  // out has a row for each column
  spec::ElementType as = spec::ElementType::float32;
  std::span<std::byte> out;

  std::size_t element() const { return static_cast<std::size_t>(spec::bytes_per_element(as)); }

  void put(const MatrixTile& tile, std::span<const float> numbers) const {
    const std::int64_t row = tile.first_row - whole.first_row, column = tile.first_column - whole.first_column;
    if (transposed)
      put_columns_as_rows(tile, row, column, numbers);
    else
      for (std::int64_t i = 0; i < tile.rows; ++i)
        put_line(numbers.subspan(static_cast<std::size_t>(i * tile.columns), static_cast<std::size_t>(tile.columns)),
                 (row + i) * whole.columns + column);
  }

 private:
  void put_line(std::span<const float> line, std::int64_t place) const {
    convert_numbers(spec::ElementType::float32, std::as_bytes(line), as,
                    out.subspan(static_cast<std::size_t>(place) * element(), line.size() * element()));
  }
  void put_columns_as_rows(const MatrixTile& tile, std::int64_t row, std::int64_t column,
                           std::span<const float> numbers) const {
    std::vector<float> line(static_cast<std::size_t>(tile.rows));
    for (std::int64_t j = 0; j < tile.columns; ++j) {
      for (std::int64_t i = 0; i < tile.rows; ++i)
        line[static_cast<std::size_t>(i)] = numbers[static_cast<std::size_t>(i * tile.columns + j)];
      put_line(line, (column + j) * whole.rows + row);
    }
  }
};

Result<void> decode_slice(const MatrixDecoder& decoder, std::size_t matrix, const DecodedSlice& slice) {
  const auto [first_row, rows, first_column, columns] = slice.whole;
  const bool tall = decoder.by_inputs();
  const std::int64_t step = std::max<std::int64_t>(1, decoded_elements / (tall ? rows : columns));
  std::vector<float> numbers;
  for (std::int64_t done = 0; done < (tall ? columns : rows); done += step) {
    MatrixTile tile = slice.whole;
    if (tall) {
      tile.first_column += done;
      tile.columns = std::min(step, columns - done);
    } else {
      tile.first_row += done;
      tile.rows = std::min(step, rows - done);
    }
    numbers.resize(static_cast<std::size_t>(tile.elements()));
    if (auto decoded = decoder.decode(matrix, tile, numbers); !decoded) return decoded;
    slice.put(tile, numbers);
  }
  return {};
}

}  // namespace

Error wrong_part(const spec::QuantizedMatrix& matrix, std::string_view word, std::string_view what) {
  return {Error::Kind::bad_input, fmt::format("{} {}", matrix.part(word), what),
          "fetch the checkpoint again: what belongs to these weights cannot be true"};
}

Result<std::unique_ptr<QuantizedSource>> QuantizedSource::open(const std::vector<spec::CheckpointFile>& files,
                                                               const spec::ModelDescription& model) {
  auto tensors = spec::find_quantized_tensors(model.shape, *model.config.quantization, files);
  if (!tensors) return tensors.error();
  auto opened = SafetensorsSource::open(files, offered_names(*tensors, files));
  if (!opened) return opened.error();
  auto source = std::make_unique<QuantizedSource>();
  source->files_ = std::move(*opened);
  source->matrices_ = std::move(tensors->matrices);
  auto decoder = std::visit(
      [&](const auto& method) { return make_decoder(method, *source->files_, source->matrices_); },
      *model.config.quantization);
  if (!decoder) return decoder.error();
  source->decoder_ = std::move(*decoder);
  source->list_tensors(model);
  return source;
}

// Matrices are in the order of the model's tensors, which lie between them.
void QuantizedSource::list_tensors(const spec::ModelDescription& model) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < model.shape.tensors.size(); ++i) {
    const spec::TensorShape& tensor = model.shape.tensors[i];
    if (tensor.kind == spec::TensorKind::derived) continue;
    const std::string path = model.shape.path(spec::TensorId{i});
    if (tensor.same_as) {
      directory_.add_name(path, model.shape.path(*tensor.same_as));
    } else if (next < matrices_.size() && matrices_[next].name == path) {
      directory_.add({path, tensor.dimensions, decoder_->stored_as(next), std::nullopt, matrices_[next].stored_bytes});
      places_.push_back(next++);
    } else {
      directory_.add(*files_->find(path));
      places_.push_back(std::nullopt);
    }
  }
}

const TensorEntry* QuantizedSource::find(std::string_view name) const {
  const auto number = directory_.find(name);
  return number ? &directory_.at(*number) : nullptr;
}

std::optional<std::size_t> QuantizedSource::matrix_named(std::string_view name) const {
  const auto number = directory_.find(name);
  return number ? places_[*number] : std::nullopt;
}

Result<void> QuantizedSource::read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                                   std::span<std::byte> out) const {
  const auto number = directory_.find(name);
  if (!number) return no_such_tensor(name);
  const TensorEntry& entry = directory_.at(*number);
  const auto matrix = places_[*number];
  if (!matrix) return files_->read(entry.name, slice, as, out);
  if (!is_convertible(as))
    return Error{Error::Kind::bad_input, fmt::format("{} cannot be read as {}", name, spec::name(as)),
                 "accepted: float64, float32, float16, bfloat16"};
  const auto bounds = check_slice(entry, slice, as, out.size());
  if (!bounds) return bounds.error();
  if (out.empty()) return {};
  DecodedSlice decoded{{bounds->first_row, bounds->rows, bounds->first_column, bounds->columns},
                       matrices_[*matrix].transposed, as, out};
  if (decoded.transposed) {
    std::swap(decoded.whole.first_row, decoded.whole.first_column);
    std::swap(decoded.whole.rows, decoded.whole.columns);
  }
  return decode_slice(*decoder_, *matrix, decoded);
}

std::optional<PackedTensor> QuantizedSource::packed(std::string_view name) const {
  const auto matrix = matrix_named(name);
  return matrix ? decoder_->packed(*matrix) : std::nullopt;
}

Result<void> QuantizedSource::read_packed(std::string_view name, std::int64_t first_row, std::int64_t rows,
                                          std::span<std::byte> codes, std::span<float> scales) const {
  const auto form = packed(name);
  if (!form) return TensorSource::read_packed(name, first_row, rows, codes, scales);
  if (first_row < 0 || rows < 0 || first_row > form->rows || rows > form->rows - first_row)
    return Error{Error::Kind::bad_input,
                 fmt::format("{} rows from {} on are not within the {} of {}", rows, first_row, form->rows, name), ""};
  if (codes.size() != static_cast<std::size_t>(rows * form->code_bytes_per_row()) ||
      scales.size() != static_cast<std::size_t>(rows * form->scales_per_row()))
    return Error{Error::Kind::bad_input,
                 fmt::format("{} rows of {} take {} bytes and {} scales, and there is room for {} and {}", rows, name,
                             rows * form->code_bytes_per_row(), rows * form->scales_per_row(), codes.size(),
                             scales.size()),
                 ""};
  if (rows == 0) return {};
  return decoder_->read_packed(*matrix_named(name), first_row, rows, codes, scales);
}

}  // namespace muster::checkpoint
