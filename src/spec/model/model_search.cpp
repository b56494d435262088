#include "spec/model/model_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "system/files.hpp"
#include "base/text.hpp"
#include "spec/model/gguf_files.hpp"
#include "spec/model/huggingface_cache.hpp"

namespace muster::spec {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// "~/cache" as a shell would read it.
fs::path expand(const std::string& path) {
  if (path == "~" || path.starts_with("~/")) return environment("HOME") + path.substr(1);
  return path;
}

fs::path hub_cache_from_environment() {
  if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) return expand(cache);
  if (const std::string home = environment("HF_HOME"); !home.empty()) return expand(home) / "hub";
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty())
    return expand(cache) / "huggingface" / "hub";
  return expand("~/.cache/huggingface/hub");
}

fs::path store_from_environment() {
  if (const std::string store = environment("MUSTER_MODELS"); !store.empty()) return expand(store);
  if (const std::string data = environment("XDG_DATA_HOME"); !data.empty()) return expand(data) / "muster" / "models";
  return expand("~/.local/share/muster/models");
}

std::vector<fs::path> gguf_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure))
    if (to_lower(entry->path().extension().string()) == ".gguf") files.push_back(entry->path());
  return files;
}

// A folder as it is, or the first part of the GGUF model that is all it holds.
fs::path folder_or_first_part(const fs::path& folder) {
  if (path_exists(folder / "config.json")) return folder;
  return first_gguf_part(gguf_files(folder)).value_or(folder);
}

}  // namespace

ModelSearch model_search_from_environment() { return {hub_cache_from_environment(), store_from_environment()}; }

Result<fs::path> find_in_store(const std::string& model, const fs::path& store) {
  const fs::path folder = store / model;
  const auto missing = [](std::string what) { return Error{Error::Kind::bad_input, std::move(what), ""}; };
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return missing(fmt::format("no folder {}", folder.string()));
  if (path_exists(folder / "config.json")) return folder;
  const std::vector<fs::path> files = gguf_files(folder);
  if (files.size() == 1) return files.front();
  if (const auto first = first_gguf_part(files)) return *first;
  return missing(fmt::format("{} holds no config.json and {} GGUF files", folder.string(), files.size()));
}

Result<fs::path> find_model(const std::string& model, const ModelSearch& search) {
  const fs::path path(model);
  std::error_code ignored;
  if (!model.empty() && path_exists(path)) return fs::is_directory(path, ignored) ? folder_or_first_part(path) : path;
  std::vector<std::string> looked{fmt::format("no file or folder {}", fs::absolute(path, ignored).string())};
  if (is_hub_name(model)) {
    if (!search.store.empty() && model.find('/') == std::string::npos) {
      const auto stored = find_in_store(model, search.store);
      if (stored) return *stored;
      looked.push_back(stored.error().what);
    }
    const auto cached = find_in_hub_cache(model, search.hub_cache);
    if (cached) return folder_or_first_part(*cached);
    looked.push_back(cached.error().what);
  }
  return Error{
      Error::Kind::bad_input, fmt::format("no model '{}':\n  {}", model, join(looked, "\n  ")),
      "a path to a folder, config.json, .safetensors or .gguf, or a name that muster model list shows (muster plan "
      "also takes a size alone: --params 7B)"};
}

}  // namespace muster::spec
