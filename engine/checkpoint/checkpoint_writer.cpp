#include "checkpoint/checkpoint_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "system/disk_space.hpp"
#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::checkpoint {
namespace {

using json = nlohmann::ordered_json;
using spec::ElementType;

// safetensors' names; "" for float8, of which there are two.
std::string_view type_word(ElementType type) {
  switch (type) {
    case ElementType::float64:
      return "F64";
    case ElementType::float32:
      return "F32";
    case ElementType::float16:
      return "F16";
    case ElementType::bfloat16:
      return "BF16";
    case ElementType::int64:
      return "I64";
    case ElementType::int32:
      return "I32";
    case ElementType::int16:
      return "I16";
    case ElementType::int8:
      return "I8";
    case ElementType::uint8:
      return "U8";
    case ElementType::boolean:
      return "BOOL";
    case ElementType::float8:
    case ElementType::float8_e5m2:
    case ElementType::float8_e8m0:
      break;
  }
  return {};
}

// The place of a type in safetensors' list of types, by which its writer orders tensors.
int type_rank(ElementType type) {
  constexpr std::array order{ElementType::boolean, ElementType::uint8,    ElementType::int8,  ElementType::int16,
                             ElementType::float16, ElementType::bfloat16, ElementType::int32, ElementType::float32,
                             ElementType::float64, ElementType::int64};
  return static_cast<int>(std::ranges::find(order, type) - order.begin());
}

std::uint64_t size_of(const TensorDeclaration& tensor) {
  return static_cast<std::uint64_t>(tensor.dimensions.elements() * spec::bytes_per_element(tensor.type));
}

std::string file_name(std::string_view stem, std::size_t number, std::size_t count) {
  if (count == 1) return fmt::format("{}.safetensors", stem);
  return fmt::format("{}-{:05}-of-{:05}.safetensors", stem, number + 1, count);
}

// A full disk is a refusal: starting the work again would meet it again.
Error cannot_write(const std::filesystem::path& folder) {
  const auto kind = is_disk_full(errno) ? Error::Kind::refused : Error::Kind::failed;
  return {kind, fmt::format("cannot write into {}: {}", folder.string(), system_reason()),
          kind == Error::Kind::refused ? "free space there" : "check permissions of the folder"};
}

Error misuse(std::string_view name, std::string what) {
  return {Error::Kind::failed, fmt::format("tensor {}: {}", name, what), ""};
}

bool write_all(int file, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

Result<void> check(const std::vector<TensorDeclaration>& tensors) {
  std::map<std::string_view, int> seen;
  for (const TensorDeclaration& tensor : tensors) {
    if (type_word(tensor.type).empty())
      return misuse(tensor.name, fmt::format("{} cannot be written", spec::name(tensor.type)));
    if (!is_utf8(tensor.name) || tensor.name == "__metadata__" || seen[tensor.name]++ > 0)
      return misuse(tensor.name, "no name, or one that is there twice");
  }
  return {};
}

}  // namespace

struct CheckpointWriter::Shard {
  std::vector<const TensorDeclaration*> tensors;
  std::uint64_t bytes = 0;

  // Length, JSON, and blanks up to a multiple of eight.
  std::string header() const {
    json object{{"__metadata__", {{"format", "pt"}}}};
    std::uint64_t end = 0;
    for (const TensorDeclaration* tensor : tensors) {
      const std::uint64_t begin = end;
      end += size_of(*tensor);
      object[tensor->name] = {
          {"dtype", type_word(tensor->type)}, {"shape", tensor->dimensions.span()}, {"data_offsets", {begin, end}}};
    }
    std::string text = object.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    const std::uint64_t length = text.size();
    const std::string start(reinterpret_cast<const char*>(&length), sizeof length);
    return start + text;
  }
};

// As transformers cuts: tensors in their order, one that is larger than a shard in one of its own, before the open one.
std::vector<CheckpointWriter::Shard> CheckpointWriter::cut(const std::vector<TensorDeclaration>& tensors,
                                                           std::uint64_t shard_bytes) {
  std::vector<Shard> shards;
  Shard open;
  for (const TensorDeclaration& tensor : tensors) {
    const std::uint64_t bytes = size_of(tensor);
    if (bytes > shard_bytes) {
      shards.push_back({{&tensor}, bytes});
      continue;
    }
    if (open.bytes + bytes > shard_bytes) shards.push_back(std::exchange(open, {}));
    open.tensors.push_back(&tensor);
    open.bytes += bytes;
  }
  if (!open.tensors.empty() || shards.empty()) shards.push_back(std::move(open));
  return shards;
}

Result<CheckpointWriter> CheckpointWriter::create(const std::filesystem::path& folder,
                                                  std::vector<TensorDeclaration> tensors, ByteCount shard_size,
                                                  std::string_view stem) {
  if (const auto checked = check(tensors); !checked) return checked.error();
  auto staged = StagedFolder::create(folder);
  if (!staged) return staged.error();
  CheckpointWriter writer(std::move(*staged));
  std::vector<Shard> shards = cut(tensors, static_cast<std::uint64_t>(shard_size.value));
  for (Shard& shard : shards)
    std::ranges::sort(shard.tensors, {}, [](const TensorDeclaration* tensor) {
      return std::tuple(-type_rank(tensor->type), std::string_view(tensor->name));
    });
  if (const auto started = writer.start_shards(shards, stem); !started) return started.error();
  return writer;
}

Result<void> CheckpointWriter::start_shards(const std::vector<Shard>& shards, std::string_view stem) {
  json map = json::object();
  std::uint64_t total = 0;
  std::map<std::string_view, std::string> files;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = file_name(stem, i, shards.size());
    FileDescriptor file(::open((folder_.path() / name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const std::string header = shards[i].header();
    if (!file || !write_all(file.number(), 0, std::as_bytes(std::span(header)))) return cannot_write(folder_.path());
    std::uint64_t begin = header.size();
    for (const TensorDeclaration* tensor : shards[i].tensors) {
      places_.emplace(tensor->name, Place{i, begin, size_of(*tensor), 0});
      begin += size_of(*tensor);
      files.emplace(tensor->name, name);
    }
    total += shards[i].bytes;
    files_.push_back(std::move(file));
  }
  if (shards.size() == 1) return {};
  for (const auto& [tensor, file] : files) map[std::string(tensor)] = file;
  const json index{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  return folder_.write(fmt::format("{}.safetensors.index.json", stem), index.dump(2) + "\n");
}

Result<void> CheckpointWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const auto found = places_.find(name);
  if (found != places_.end() && found->second.bytes != bytes.size())
    return misuse(name, fmt::format("{} bytes, and it has {}", bytes.size(), found->second.bytes));
  return write_part(name, 0, bytes);
}

Result<void> CheckpointWriter::write_part(std::string_view name, std::uint64_t offset,
                                          std::span<const std::byte> bytes) {
  const auto found = places_.find(name);
  if (found == places_.end()) return misuse(name, "was not declared");
  Place& place = found->second;
  if (offset > place.bytes || bytes.size() > place.bytes - offset || bytes.size() > place.bytes - place.written)
    return misuse(name, fmt::format("{} bytes from {} on after {} others, and it has {}", bytes.size(), offset,
                                    place.written, place.bytes));
  if (!write_all(files_[place.shard].number(), place.begin + offset, bytes)) return cannot_write(folder_.path());
  place.written += bytes.size();
  return {};
}

Result<void> CheckpointWriter::add_file(std::string_view name, std::string_view text) {
  std::error_code ignored;  // where it cannot be made, writing into it says so
  std::filesystem::create_directories((folder_.path() / name).parent_path(), ignored);
  return folder_.write(name, text);
}

Result<void> CheckpointWriter::finish() {
  for (const auto& [name, place] : places_)
    if (place.written != place.bytes)
      return misuse(name, fmt::format("{} of {} bytes were written", place.written, place.bytes));
  return folder_.commit();  // which flushes the files
}

}  // namespace muster::checkpoint
