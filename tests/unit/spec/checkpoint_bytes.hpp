// Checkpoint files as bytes, right or wrong, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace muster::spec::testing {

template <class Number>
std::string little_endian(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// A safetensors file with this header and so many bytes of data.
inline std::string safetensors_bytes(std::string_view header, std::size_t data) {
  return little_endian<std::uint64_t>(header.size()) + std::string(header) + std::string(data, '\0');
}

// A safetensors file with float32 tensors of these names and sizes, one after the other.
inline std::string safetensors_of(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors,
                                  std::string_view dtype = "F32", std::size_t element = 4) {
  nlohmann::json header{{"__metadata__", {{"format", "pt"}}}};
  std::size_t end = 0;
  for (const auto& [name, sizes] : tensors) {
    std::size_t bytes = element;
    for (const std::int64_t size : sizes) bytes *= static_cast<std::size_t>(size);
    header[name] = {{"dtype", dtype}, {"shape", sizes}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  return safetensors_bytes(header.dump(), end);
}

// The bytes of a GGUF file, part by part.
class GgufBytes {
 public:
  explicit GgufBytes(std::uint32_t version = 3) : start_("GGUF" + little_endian(version)) {}

  static std::string text(std::string_view value) {
    return little_endian<std::uint64_t>(value.size()) + std::string(value);
  }
  // A value of any type: its number and its bytes.
  GgufBytes& value(std::string_view key, std::uint32_t type, std::string_view bytes) {
    values_ += text(key) + little_endian(type) + std::string(bytes);
    ++value_count_;
    return *this;
  }
  GgufBytes& number(std::string_view key, std::uint32_t value) { return this->value(key, 4, little_endian(value)); }
  GgufBytes& word(std::string_view key, std::string_view value) { return this->value(key, 8, text(value)); }
  GgufBytes& words(std::string_view key, const std::vector<std::string>& list) {
    std::string bytes = little_endian<std::uint32_t>(8) + little_endian<std::uint64_t>(list.size());
    for (const std::string& entry : list) bytes += text(entry);
    return value(key, 9, bytes);
  }
  // Sizes in GGUF's order. The next free place, of the given length.
  GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                    std::uint64_t length) {
    place(name, sizes, type, data_);
    data_ += (length + 31) / 32 * 32;
    return *this;
  }
  GgufBytes& place(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                   std::uint64_t offset) {
    tensors_ += text(name) + little_endian(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) tensors_ += little_endian(size);
    tensors_ += little_endian(type) + little_endian(offset);
    ++tensor_count_;
    return *this;
  }
  std::string header() const {
    return start_ + little_endian(tensor_count_) + little_endian(value_count_) + values_ + tensors_;
  }
  std::string file() const {
    std::string bytes = header();
    bytes.resize((bytes.size() + 31) / 32 * 32 + data_, '\0');
    return bytes;
  }

 private:
  std::string start_, values_, tensors_;
  std::uint64_t value_count_ = 0, tensor_count_ = 0, data_ = 0;
};

}  // namespace muster::spec::testing
