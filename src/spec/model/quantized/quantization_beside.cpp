#include "spec/model/quantized/quantization_beside.hpp"

#include <fmt/format.h>

#include <array>

#include "json/json_text.hpp"
#include "spec/model/quantized/quantization_reader.hpp"
#include "system/files.hpp"
#include "system/regular_file.hpp"

namespace muster::spec {
namespace {

constexpr std::uint64_t longest_settings = 1'000'000;

struct SettingsFile {
  const char* name;
  const char* method;  // of those that do not name it
};
constexpr std::array settings_files{SettingsFile{"quantize_config.json", "gptq"},
                                    SettingsFile{"quant_config.json", "awq"}};

Result<nlohmann::json> read_settings(const std::filesystem::path& path) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  if (file->size() > longest_settings)
    return Error{Error::Kind::bad_input,
                 fmt::format("{}: {} bytes are too long for the settings of a quantisation", path.string(), file->size()),
                 "fetch the checkpoint again"};
  const auto text = file->beginning(file->size());
  if (!text) return text.error();
  return parse_json_object(*text, path.string());
}

}  // namespace

Result<std::optional<CheckpointQuantization>> read_quantization_beside(const std::filesystem::path& folder) {
  for (const auto& [name, method] : settings_files) {
    if (!path_exists(folder / name)) continue;
    auto settings = read_settings(folder / name);
    if (!settings) return settings.error();
    if (!settings->contains("quant_method") && !settings->contains("method")) (*settings)["quant_method"] = method;
    const auto read = read_quantization(*settings, (folder / name).string(), "");
    if (!read) return read.error();
    return std::optional(*read);
  }
  return std::optional<CheckpointQuantization>();
}

}  // namespace muster::spec
