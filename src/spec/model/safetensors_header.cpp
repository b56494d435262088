#include "spec/model/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "system/regular_file.hpp"
#include "json/json_text.hpp"
#include "spec/model/little_endian.hpp"

namespace muster::spec {
namespace {

using nlohmann::json;
constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t longest_safetensors_header = 100'000'000;

struct TypeWord {
  std::string_view word;
  ElementType type;
};
constexpr std::array type_words{
    TypeWord{"F64", ElementType::float64},    TypeWord{"F32", ElementType::float32},
    TypeWord{"F16", ElementType::float16},    TypeWord{"BF16", ElementType::bfloat16},
    TypeWord{"F8_E4M3", ElementType::float8}, TypeWord{"F8_E5M2", ElementType::float8_e5m2},
    TypeWord{"F8_E8M0", ElementType::float8_e8m0},
    TypeWord{"I64", ElementType::int64},      TypeWord{"I32", ElementType::int32},
    TypeWord{"I16", ElementType::int16},      TypeWord{"I8", ElementType::int8},
    TypeWord{"U8", ElementType::uint8},       TypeWord{"BOOL", ElementType::boolean},
};

Error header_refusal(std::string_view source, std::string what) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", source, what),
          "check that the file is whole and the right one"};
}

// The length of the header, once it is known to be within the file.
Result<std::uint64_t> header_length(std::string_view beginning, std::uint64_t file_size, std::string_view source) {
  if (file_size < length_bytes || beginning.size() < length_bytes)
    return header_refusal(source, fmt::format("no safetensors file: it has {} bytes", file_size));
  const auto length = load_little_endian<std::uint64_t>(beginning);
  if (length > longest_safetensors_header)
    return header_refusal(source, fmt::format("no safetensors file: its header would be {} bytes long, and {} are the most",
                                       length, longest_safetensors_header));
  if (length > file_size - length_bytes)
    return header_refusal(source, fmt::format("cut off: its header of {} bytes does not fit its {} bytes", length, file_size));
  return length;
}

std::string first_sizes(const json& list) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < list.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + shown(list[i]);
  return list.size() > most ? text + ", …" : text;
}

// Sizes whose product, times the bytes of an element, is the tensor's length.
Result<Dimensions> read_sizes(const json& list, const std::string& name, std::string_view source) {
  Dimensions dimensions;
  if (!list.is_array()) return header_refusal(source, fmt::format("tensor {} has no list as its shape", name));
  if (list.size() > dimensions.sizes.size())
    return header_refusal(source, fmt::format("tensor {} has {} dimensions, [{}], and {} are the most", name, list.size(),
                                       first_sizes(list), dimensions.sizes.size()));
  std::int64_t elements = 1;
  for (const json& size : list) {
    const bool fits = size.is_number_unsigned() &&
                      size.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    if (!fits || __builtin_mul_overflow(elements, size.get<std::int64_t>(), &elements))
      return header_refusal(source, fmt::format("tensor {} has a shape that cannot be: {}", name, shown(size)));
    dimensions.sizes[dimensions.rank++] = size.get<std::int64_t>();
  }
  return dimensions;
}

struct Offsets {
  std::uint64_t begin = 0, end = 0;
};

Result<Offsets> read_offsets(const json& list, const std::string& name, std::string_view source) {
  if (!list.is_array() || list.size() != 2 || !list[0].is_number_unsigned() || !list[1].is_number_unsigned())
    return header_refusal(source, fmt::format("tensor {} has no two data_offsets", name));
  return Offsets{list[0].get<std::uint64_t>(), list[1].get<std::uint64_t>()};
}

Result<StoredTensor> read_tensor(const std::string& key, const json& entry, std::uint64_t data, std::uint64_t file_size,
                                 std::string_view source) {
  const std::string name = shown(json(key));  // for messages
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
    return header_refusal(source, fmt::format("tensor {} lacks dtype, shape or data_offsets", name));
  const json& dtype = entry["dtype"];
  const auto word = dtype.is_string()
                        ? std::ranges::find(type_words, dtype.get_ref<const std::string&>(), &TypeWord::word)
                        : type_words.end();
  if (word == type_words.end())
    return header_refusal(source, fmt::format("tensor {} is of a type that is not known: {}", name, shown(dtype)));
  const auto dimensions = read_sizes(entry["shape"], name, source);
  if (!dimensions) return dimensions.error();
  const auto offsets = read_offsets(entry["data_offsets"], name, source);
  if (!offsets) return offsets.error();
  if (offsets->begin > offsets->end || offsets->end > file_size - data)
    return header_refusal(source, fmt::format("tensor {} lies from {} to {} of {} bytes of data", name, offsets->begin,
                                       offsets->end, file_size - data));
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(dimensions->elements(), bytes_per_element(word->type), &bytes) ||
      static_cast<std::uint64_t>(bytes) != offsets->end - offsets->begin)
    return header_refusal(source, fmt::format("tensor {} takes {} bytes, and {} elements of {} do not", name,
                                       offsets->end - offsets->begin, dimensions->elements(), word->word));
  return StoredTensor{key, word->type, *dimensions, data + offsets->begin, data + offsets->end};
}

// Tensors one after another, from the end of the header to the end of the file.
Result<void> check_places(const std::vector<StoredTensor>& tensors, std::uint64_t data, std::uint64_t file_size,
                          std::string_view source) {
  std::uint64_t reached = data;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin != reached)
      return header_refusal(source,
                     fmt::format("tensor {} begins at byte {}, {} byte {}, where the one before it ends",
                                 shown(json(tensor.name)), tensor.begin,
                                 tensor.begin < reached ? "inside of another, before" : "after a hole from", reached));
    reached = tensor.end;
  }
  if (reached != file_size)
    return header_refusal(source, fmt::format("its tensors end at byte {}, but it has {} bytes", reached, file_size));
  return {};
}

Result<void> read_metadata(const json& entry, SafetensorsHeader& header, std::string_view source) {
  if (!entry.is_object()) return header_refusal(source, "__metadata__ is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return header_refusal(source, fmt::format("__metadata__ {} is not text", shown(json(key))));
    header.metadata.emplace(key, value.get<std::string>());
  }
  return {};
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view beginning, std::uint64_t file_size,
                                                   std::string_view source) {
  const auto length = header_length(beginning, file_size, source);
  if (!length) return length.error();
  const std::string_view text = beginning.substr(length_bytes, *length);
  if (text.size() < *length) return header_refusal(source, "its header could not be read whole");
  if (!text.starts_with('{')) return header_refusal(source, "no safetensors file: its header is not a JSON object");
  const auto object = parse_json_object(text, source);
  if (!object) return object.error();
  SafetensorsHeader header;
  const std::uint64_t data = length_bytes + *length;
  for (const auto& [key, entry] : object->items()) {
    if (key == "__metadata__") {
      if (const auto read = read_metadata(entry, header, source); !read) return read.error();
      continue;
    }
    auto tensor = read_tensor(key, entry, data, file_size, source);
    if (!tensor) return tensor.error();
    header.tensors.push_back(std::move(*tensor));
  }
  std::ranges::sort(header.tensors, {}, [](const StoredTensor& tensor) {
    return std::tuple(tensor.begin, tensor.end, std::string_view(tensor.name));
  });
  if (const auto placed = check_places(header.tensors, data, file_size, source); !placed) return placed.error();
  return header;
}

Result<SafetensorsHeader> read_safetensors_header(const std::filesystem::path& file) {
  const auto opened = RegularFile::open(file);
  if (!opened) return opened.error();
  const auto start = opened->beginning(length_bytes);
  if (!start) return start.error();
  const auto length = header_length(*start, opened->size(), file.string());
  if (!length) return length.error();
  const auto beginning = opened->beginning(length_bytes + *length);
  if (!beginning) return beginning.error();
  return parse_safetensors_header(*beginning, opened->size(), file.string());
}

}  // namespace muster::spec
