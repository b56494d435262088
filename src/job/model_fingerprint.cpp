#include "job/model_fingerprint.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "spec/model/gguf_files.hpp"
#include "spec/model/model_search.hpp"
#include "system/sha256.hpp"

namespace muster::job {
namespace {

constexpr std::int64_t sample_bytes = 64 << 10;
constexpr std::int64_t samples = 16;  // of a large file, evenly spread; a small one is read whole

// Weights that were trained differ everywhere, so samples are enough, and a large model is not read twice.
std::string digest_of(const std::filesystem::path& path, std::int64_t size) {
  Sha256 digest;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(static_cast<std::size_t>(sample_bytes));
  const std::int64_t step = std::max(sample_bytes, (size - sample_bytes) / (samples - 1));
  for (std::int64_t from = 0; from < size && file; from += step) {
    file.seekg(from);
    file.read(bytes.data(), sample_bytes);
    digest.add(std::as_bytes(std::span(bytes).first(static_cast<std::size_t>(file.gcount()))));
    if (file.eof()) file.clear();
  }
  const std::array<std::int64_t, 1> whole{size};
  digest.add(std::as_bytes(std::span(whole)));
  return digest.finish();
}

}  // namespace

nlohmann::ordered_json model_fingerprint(const std::string& model) {
  nlohmann::ordered_json found = nlohmann::ordered_json::object();
  const auto path = spec::find_model(model, spec::model_search_from_environment());
  if (!path) return found;
  std::error_code ignored;
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(*path, ignored))
    for (const auto& entry : std::filesystem::directory_iterator(*path, ignored)) files.push_back(entry.path());
  else
    files = spec::gguf_parts_by_name(*path);
  std::ranges::sort(files);
  for (const std::filesystem::path& file : files) {
    if (!std::filesystem::is_regular_file(file, ignored)) continue;
    const auto size = std::filesystem::file_size(file, ignored);
    if (!ignored) found[file.filename().string()] = digest_of(file, static_cast<std::int64_t>(size)).substr(0, 16);
  }
  return found;
}

}  // namespace muster::job
