// The settings a run was made with, from its spec.yaml.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/schema.hpp"

namespace muster::runs {

// Every key that the file names, with its value as muster writes it. A key or a value that this version does not know
// is kept as it is: the run may be from another version.
using RunSettings = std::map<std::string, std::string>;
Result<RunSettings> parse_run_settings(const spec::Schema& schema, std::string_view text, const std::string& source);
Result<RunSettings> read_run_settings(const spec::Schema& schema, const std::filesystem::path& spec_file);

// Those that are not at their built-in value, in the order of the schema, then unknown keys.
struct RunSetting {
  std::string key, value;
};
std::vector<RunSetting> changed_settings(const spec::Schema& schema, const RunSettings& settings);

// A key whose values differ; absent: the run's file does not name it, and its built-in value is not known.
struct SettingDifference {
  std::string key;
  std::optional<std::string> first, second;
};
std::vector<SettingDifference> setting_differences(const spec::Schema& schema, const RunSettings& first,
                                                   const RunSettings& second);

}  // namespace muster::runs
