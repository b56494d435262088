#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "system/regular_file.hpp"
#include "json/json_text.hpp"
#include "spec/model/safetensors_header.hpp"

namespace muster::spec {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
constexpr std::uint64_t longest_index = 100'000'000;

// Which tensors each file holds, according to the index.
using Listing = std::map<std::string, std::set<std::string>>;

Error refusal(const fs::path& index, std::string what) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", index.string(), what),
          "fetch the checkpoint again, or give its config.json alone"};
}

// Only files next to the index: "model-00001-of-00002.safetensors".
bool is_plain_file_name(const std::string& name) {
  return name.ends_with(".safetensors") && name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

Result<Listing> read_index(const fs::path& index) {
  const auto file = RegularFile::open(index);
  if (!file) return file.error();
  if (file->size() > longest_index) return refusal(index, fmt::format("{} bytes are too long", file->size()));
  const auto text = file->beginning(file->size());
  if (!text) return text.error();
  const auto object = parse_json_object(*text, index.string());
  if (!object) return object.error();
  const auto map = object->find("weight_map");
  if (map == object->end() || !map->is_object() || map->empty())
    return refusal(index, "has no weight_map with tensors");
  Listing listing;
  for (const auto& [tensor, name] : map->items()) {
    if (!name.is_string() || !is_plain_file_name(name.get_ref<const std::string&>()))
      return refusal(index, fmt::format("{} lies in {}, which is not a .safetensors file beside it", shown(json(tensor)),
                                        shown(name)));
    listing[name.get<std::string>()].insert(tensor);
  }
  return listing;
}

// The file has exactly the tensors that the index lists.
Result<void> compare(const fs::path& index, const std::string& name, const std::set<std::string>& listed,
                     const SafetensorsHeader& header) {
  std::set<std::string> missing = listed;
  for (const StoredTensor& tensor : header.tensors)
    if (missing.erase(tensor.name) == 0)
      return refusal(index, fmt::format("does not list {}, which {} has", shown(json(tensor.name)), name));
  if (!missing.empty())
    return refusal(index, fmt::format("lists {} in {}, which does not have it", shown(json(*missing.begin())), name));
  return {};
}

Result<std::vector<CheckpointFile>> read_listed(const fs::path& index) {
  const auto listing = read_index(index);
  if (!listing) return listing.error();
  std::vector<CheckpointFile> files;
  for (const auto& [name, tensors] : *listing) {
    const fs::path path = index.parent_path() / name;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return refusal(index, fmt::format("lists {}, which is not there", name));
    auto header = read_safetensors_header(path);
    if (!header) return header.error();
    if (const auto same = compare(index, name, tensors, *header); !same) return same.error();
    files.push_back({path, std::move(*header)});
  }
  return files;
}

// What AutoGPTQ calls the file of a model: "gptq_model-4bit-128g.safetensors". Nothing where there are several.
std::optional<fs::path> autogptq_file(const fs::path& folder) {
  std::optional<fs::path> found;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with("gptq_model-") || !name.ends_with(".safetensors")) continue;
    if (found) return std::nullopt;
    found = entry->path();
  }
  return found;
}

Result<std::vector<CheckpointFile>> read_single(const fs::path& file) {
  auto header = read_safetensors_header(file);
  if (!header) return header.error();
  std::vector<CheckpointFile> files;
  files.push_back({file, std::move(*header)});
  return files;
}

}  // namespace

Result<std::vector<CheckpointFile>> read_checkpoint_headers(const fs::path& folder) {
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  std::error_code ignored;
  if (fs::exists(single, ignored)) return read_single(single);
  if (fs::exists(index, ignored)) return read_listed(index);
  if (const auto file = autogptq_file(folder)) return read_single(*file);
  return std::vector<CheckpointFile>{};
}

}  // namespace muster::spec
