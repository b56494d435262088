#include "checkpoint/safetensors_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "checkpoint/number_conversion.hpp"

namespace muster::checkpoint {
namespace {

// What is read at once to be converted: small enough to stay in the core's own cache.
constexpr std::size_t conversion_bytes = std::size_t{128} << 10;

std::size_t size_of(spec::ElementType type) { return static_cast<std::size_t>(spec::bytes_per_element(type)); }

Error cannot_convert(const TensorEntry& entry, spec::ElementType as) {
  return {Error::Kind::bad_input,
          fmt::format("{} is stored as {} and cannot be read as {}", entry.name, entry.stored_as, spec::name(as)),
          "float64, float32, float16 and bfloat16 are converted into one another"};
}

}  // namespace

Result<std::unique_ptr<SafetensorsSource>> SafetensorsSource::open(const std::vector<spec::CheckpointFile>& files,
                                                                   const std::vector<NamedTensor>& names) {
  auto source = std::make_unique<SafetensorsSource>();
  struct Stored {
    std::size_t file;
    const spec::StoredTensor* tensor;
  };
  std::unordered_map<std::string_view, Stored> stored;
  for (const spec::CheckpointFile& file : files) {
    auto opened = RegularFile::open(file.path);
    if (!opened) return opened.error();
    for (const spec::StoredTensor& tensor : file.header.tensors)
      stored.emplace(tensor.name, Stored{source->files_.size(), &tensor});
    auto mapping = MappedFile::map(*opened);
    if (!mapping) return mapping.error();
    if (!file.header.tensors.empty() && file.header.tensors.back().end > mapping->bytes().size())
      return Error{Error::Kind::bad_input, fmt::format("{} is being rewritten", file.path.string()), "start again"};
    source->mappings_.push_back(std::move(*mapping));
    source->files_.push_back(std::move(*opened));
  }
  for (const NamedTensor& name : names) {
    const auto found = stored.find(name.stored_name);
    if (found == stored.end()) return no_such_tensor(name.stored_name);
    const auto [file, tensor] = found->second;
    source->directory_.add(
        {name.name, tensor->dimensions, spec::name(tensor->type), tensor->type, tensor->end - tensor->begin});
    source->places_.push_back({file, tensor->begin, tensor->type});
  }
  return source;
}

const TensorEntry* SafetensorsSource::find(std::string_view name) const {
  const auto number = directory_.find(name);
  return number ? &directory_.at(*number) : nullptr;
}

const std::byte* SafetensorsSource::view(std::string_view name) const {
  const auto number = directory_.find(name);
  if (!number) return nullptr;
  const Place& place = places_[*number];
  const auto size = files_[place.file].current_size();
  if (!size || *size != files_[place.file].size()) return nullptr;  // read() reports what happened
  bytes_read_.fetch_add(directory_.at(*number).stored_bytes, std::memory_order_relaxed);
  return mappings_[place.file].bytes().data() + place.begin;
}

void SafetensorsSource::release(std::string_view name) const {
  const auto number = directory_.find(name);
  if (!number) return;
  const Place& place = places_[*number];
  mappings_[place.file].release(place.begin, place.begin + directory_.at(*number).stored_bytes);
}

Result<void> SafetensorsSource::read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                                     std::span<std::byte> out) const {
  const auto number = directory_.find(name);
  if (!number) return no_such_tensor(name);
  const TensorEntry& entry = directory_.at(*number);
  const Place& place = places_[*number];
  if (place.type != as && !(is_convertible(place.type) && is_convertible(as))) return cannot_convert(entry, as);
  const auto bounds = check_slice(entry, slice, as, out.size());
  if (!bounds) return bounds.error();
  return fill(place, *bounds, as, out);
}

Result<void> SafetensorsSource::read_bytes(std::string_view name, std::uint64_t first, std::span<std::byte> out) const {
  const auto number = directory_.find(name);
  if (!number) return no_such_tensor(name);
  const TensorEntry& entry = directory_.at(*number);
  if (first > entry.stored_bytes || out.size() > entry.stored_bytes - first)
    return Error{Error::Kind::bad_input,
                 fmt::format("{} bytes from {} on are not within the {} of {}", out.size(), first, entry.stored_bytes, name),
                 ""};
  const Place& place = places_[*number];
  bytes_read_.fetch_add(out.size(), std::memory_order_relaxed);
  return files_[place.file].read_at(place.begin + first, out);
}

Result<void> SafetensorsSource::fill(const Place& place, const SliceBounds& bounds, spec::ElementType as,
                                     std::span<std::byte> out) const {
  if (out.empty()) return {};
  if (bounds.whole_rows()) return copy(place, bounds.first_row * bounds.tensor_columns, out, as);
  const std::size_t row_bytes = static_cast<std::size_t>(bounds.columns) * size_of(as);
  for (std::int64_t row = bounds.first_row; !out.empty(); ++row, out = out.subspan(row_bytes)) {
    const std::int64_t first = row * bounds.tensor_columns + bounds.first_column;
    if (const auto copied = copy(place, first, out.first(row_bytes), as); !copied) return copied;
  }
  return {};
}

// Elements that lie one after the other in the file.
Result<void> SafetensorsSource::copy(const Place& place, std::int64_t first_element, std::span<std::byte> out,
                                     spec::ElementType as) const {
  const RegularFile& file = files_[place.file];
  std::uint64_t at = place.begin + static_cast<std::uint64_t>(first_element) * size_of(place.type);
  if (place.type == as) {
    bytes_read_.fetch_add(out.size(), std::memory_order_relaxed);
    return file.read_at(at, out);
  }
  alignas(64) std::array<std::byte, conversion_bytes> buffer;
  while (!out.empty()) {
    const std::size_t count = std::min(buffer.size() / size_of(place.type), out.size() / size_of(as));
    const auto stored = std::span(buffer).first(count * size_of(place.type));
    if (const auto read = file.read_at(at, stored); !read) return read;
    bytes_read_.fetch_add(stored.size(), std::memory_order_relaxed);
    convert_numbers(place.type, stored, as, out.first(count * size_of(as)));
    at += stored.size();
    out = out.subspan(count * size_of(as));
  }
  return {};
}

Result<std::unique_ptr<TensorSource>> open_safetensors(const std::filesystem::path& path) {
  std::vector<spec::CheckpointFile> files;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    auto found = spec::read_checkpoint_headers(path);
    if (!found) return found.error();
    files = std::move(*found);
    if (files.empty())
      return Error{Error::Kind::bad_input,
                   fmt::format("{} holds no model.safetensors and no model.safetensors.index.json", path.string()), ""};
  } else {
    auto header = spec::read_safetensors_header(path);
    if (!header) return header.error();
    files.push_back({path, std::move(*header)});
  }
  std::vector<NamedTensor> names;
  for (const spec::CheckpointFile& file : files)
    for (const spec::StoredTensor& tensor : file.header.tensors) names.push_back({tensor.name, tensor.name});
  auto source = SafetensorsSource::open(files, names);
  if (!source) return source.error();
  return std::unique_ptr<TensorSource>(std::move(*source));
}

}  // namespace muster::checkpoint
