#include "checkpoint/gguf_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "checkpoint/dequantize.hpp"
#include "checkpoint/number_conversion.hpp"
#include "checkpoint/stored_columns.hpp"

namespace muster::checkpoint {
namespace {

using spec::GgufOrder;

// Elements that are unpacked at once.
constexpr std::int64_t tile_elements = std::int64_t{1} << 16;

std::size_t stored_size(spec::ElementType type) { return static_cast<std::size_t>(spec::bytes_per_element(type)); }

// The row of the file that holds a row of transformers' tensor. In a head, transformers has the first elements of all
// rotated pairs and then the second ones; the file has each pair together.
std::int64_t interleaved_row(std::int64_t row, std::int64_t head_size) {
  const std::int64_t head = row / head_size * head_size, within = row % head_size, pairs = head_size / 2;
  return head + 2 * (within % pairs) + within / pairs;
}

}  // namespace

struct GgufSource::Tile {
  // The columns from first on, of rows of the file that are row_elements long.
  Tile(spec::GgufType type, std::int64_t row_elements, std::int64_t first, std::int64_t columns) {
    const spec::GgufBlock block = spec::block_of(type);
    const std::int64_t first_block = first / block.elements;
    const std::int64_t end_block = columns == 0 ? first_block : (first + columns - 1) / block.elements + 1;
    row_bytes = row_elements / block.elements * block.bytes;
    first_byte = first_block * block.bytes;
    bytes = (end_block - first_block) * block.bytes;
    elements = (end_block - first_block) * block.elements;
    skipped = first - first_block * block.elements;
  }
  bool whole_rows() const { return bytes == row_bytes; }
  const float* row(std::int64_t number) const { return numbers.data() + number * elements + skipped; }

  std::int64_t row_bytes, first_byte, bytes;  // of a row in the file, and of what is wanted of it
  std::int64_t elements, skipped;             // of a row in the tile, and those before the first that is wanted
  std::vector<std::byte> packed;
  std::vector<float> numbers;
};

Result<std::unique_ptr<GgufSource>> GgufSource::open(const std::filesystem::path& path,
                                                     const spec::ModelDescription& model) {
  const auto files = spec::read_gguf_files(path);
  if (!files) return files.error();
  if (model.config.head_size % 2 != 0 && model.config.position_kind == spec::PositionKind::rotary)
    return Error{Error::Kind::bad_input,
                 fmt::format("{}: heads of {} elements cannot rotate in pairs", path.string(), model.config.head_size),
                 ""};
  std::vector<RegularFile> opened;
  for (const std::filesystem::path& part : files->paths) {
    auto file = RegularFile::open(part);
    if (!file) return file.error();
    opened.push_back(std::move(*file));
  }
  std::unique_ptr<GgufSource> source(new GgufSource(std::move(opened)));
  std::unordered_map<std::string_view, const spec::GgufTensor*> stored;
  for (const spec::GgufTensor& tensor : files->header.tensors) stored.emplace(tensor.name, &tensor);
  for (std::size_t i = 0; i < model.shape.tensors.size(); ++i) {
    const spec::TensorId id{i};
    const spec::TensorShape& wanted = model.shape.at(id);
    if (wanted.kind == spec::TensorKind::derived) continue;
    std::string name = model.shape.path(id);
    if (wanted.same_as) {
      source->directory_.add_name(std::move(name), model.shape.path(*wanted.same_as));
      continue;
    }
    const auto found = stored.find(spec::gguf_name(model.shape, id));
    if (found == stored.end() || found->second->dimensions != spec::gguf_dimensions(model.shape, id))
      return no_such_tensor(name);
    const spec::GgufTensor& tensor = *found->second;
    const std::size_t rank = tensor.dimensions.rank;
    const std::int64_t row = rank == 0 ? 1 : tensor.dimensions.sizes[rank - 1];
    source->directory_.add(
        {std::move(name), wanted.dimensions, spec::name(tensor.type), std::nullopt, tensor.end - tensor.begin});
    source->places_.push_back({tensor.file, tensor.begin, tensor.type,
                               spec::gguf_order(model.shape, id, model.config.family), model.config.head_size, row});
  }
  return source;
}

const TensorEntry* GgufSource::find(std::string_view name) const {
  const auto number = directory_.find(name);
  return number ? &directory_.at(*number) : nullptr;
}

Result<void> GgufSource::read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                              std::span<std::byte> out) const {
  const auto number = directory_.find(name);
  if (!number) return no_such_tensor(name);
  const TensorEntry& entry = directory_.at(*number);
  if (!is_convertible(as))
    return Error{Error::Kind::bad_input, fmt::format("{} cannot be read as {}", name, spec::name(as)),
                 "accepted: float64, float32, float16, bfloat16"};
  auto bounds = check_slice(entry, slice, as, out.size());
  if (!bounds) return bounds.error();
  if (out.empty()) return {};
  const Place& place = places_[*number];
  if (entry.dimensions.rank == 1) {
    if (place.order == GgufOrder::interleaved) return read_interleaved_vector(place, *bounds, as, out);
    std::swap(bounds->tensor_rows, bounds->tensor_columns);  // one row in the file
    std::swap(bounds->first_row, bounds->first_column);
    std::swap(bounds->rows, bounds->columns);
  }
  return place.order == GgufOrder::transposed ? read_transposed(place, *bounds, as, out)
                                              : read_rows(place, *bounds, as, out);
}

Result<void> GgufSource::load(const Place& place, std::int64_t first_row, std::int64_t rows, Tile& tile) const {
  tile.packed.resize(static_cast<std::size_t>(rows * tile.bytes));
  tile.numbers.resize(static_cast<std::size_t>(rows * tile.elements));
  const auto at = [&](std::int64_t row) {
    return place.begin + static_cast<std::uint64_t>(row * tile.row_bytes + tile.first_byte);
  };
  const std::int64_t reads = tile.whole_rows() ? 1 : rows;
  const auto part = static_cast<std::size_t>(tile.bytes * (rows / reads));
  for (std::int64_t i = 0; i < reads; ++i)
    if (auto read = files_[place.file].read_at(
            at(first_row + i), std::span(tile.packed).subspan(static_cast<std::size_t>(i) * part, part));
        !read)
      return read;
  bytes_read_.fetch_add(tile.packed.size(), std::memory_order_relaxed);
  dequantize(place.type, tile.packed, tile.numbers);
  return {};
}

Result<void> GgufSource::read_rows(const Place& place, const SliceBounds& bounds, spec::ElementType as,
                                   std::span<std::byte> out) const {
  const bool interleaved = place.order == GgufOrder::interleaved;
  Tile tile(place.type, place.row_elements, bounds.first_column, bounds.columns);
  const std::size_t row_bytes = static_cast<std::size_t>(bounds.columns) * stored_size(as);
  const std::int64_t unit = interleaved ? place.head_size : 1;  // rows that change places among themselves
  const std::int64_t step =
      std::max<std::int64_t>(1, tile_elements / std::max<std::int64_t>(1, tile.elements * unit)) * unit;
  const std::int64_t end = bounds.first_row + bounds.rows;
  for (std::int64_t row = bounds.first_row; row < end;) {
    const std::int64_t stop = std::min(end, (row / unit * unit) + step);
    // Parts of a head are read as the whole head; all its rows lie together.
    const std::int64_t first = row / unit * unit;
    const std::int64_t count = std::min((stop + unit - 1) / unit * unit, bounds.tensor_rows) - first;
    if (auto loaded = load(place, first, count, tile); !loaded) return loaded;
    for (; row < stop; ++row, out = out.subspan(row_bytes)) {
      const std::int64_t stored = interleaved ? interleaved_row(row, place.head_size) : row;
      const std::span numbers(tile.row(stored - first), static_cast<std::size_t>(bounds.columns));
      convert_numbers(spec::ElementType::float32, std::as_bytes(numbers), as, out.first(row_bytes));
    }
  }
  return {};
}

// Biases of queries and keys: one row in the file, small enough to be read whole.
Result<void> GgufSource::read_interleaved_vector(const Place& place, const SliceBounds& bounds, spec::ElementType as,
                                                 std::span<std::byte> out) const {
  Tile tile(place.type, place.row_elements, 0, place.row_elements);
  if (auto loaded = load(place, 0, 1, tile); !loaded) return loaded;
  std::vector<float> numbers;
  for (std::int64_t row = bounds.first_row; row < bounds.first_row + bounds.rows; ++row)
    numbers.push_back(tile.row(0)[interleaved_row(row, place.head_size)]);
  convert_numbers(spec::ElementType::float32, std::as_bytes(std::span(numbers)), as, out);
  return {};
}

// Rows of transformers' tensor are columns of the file's.
Result<void> GgufSource::read_transposed(const Place& place, const SliceBounds& bounds, spec::ElementType as,
                                         std::span<std::byte> out) const {
  Tile tile(place.type, place.row_elements, bounds.first_row, bounds.rows);
  const std::int64_t step = std::max<std::int64_t>(1, tile_elements / std::max<std::int64_t>(1, tile.elements));
  for (std::int64_t column = 0; column < bounds.columns; column += step) {
    const std::int64_t count = std::min(step, bounds.columns - column);
    if (auto loaded = load(place, bounds.first_column + column, count, tile); !loaded) return loaded;
    put_columns({tile.row(0), tile.elements, column, count}, bounds, as, out);
  }
  return {};
}

}  // namespace muster::checkpoint
