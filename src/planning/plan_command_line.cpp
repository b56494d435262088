#include <algorithm>
#include <iterator>
#include <map>

#include "base/shell_word.hpp"
#include "planning/plan_options.hpp"
#include "planning/remedy_words.hpp"
#include "spec/alias.hpp"

namespace muster::planning {
namespace {

// Options that stand for several settings, or for one that a flag sets.
const std::map<std::string, std::vector<std::string>>& keys_of_options() {
  static const std::map<std::string, std::vector<std::string>> keys{
      {"--dtype", {"model.dtype", "model.load_in_8bit", "model.load_in_4bit"}},
      {"--mixed-precision", {"training.mixed_precision", "training.bf16", "training.fp16"}},
      {"--gpu-ids", {"distributed.gpu_ids", "distributed.num_gpus"}},
      {"--device-map", {"model.device_map", "model.auto_device_map"}},
      {"--max-memory", {"model.max_memory"}},
      {"--checkpointing", {"training.gradient_checkpointing"}},
      {"--offload", {"distributed.fsdp_cpu_offload"}},
      {"--lora", {"model.use_lora", "model.lora_r"}},
  };
  return keys;
}

bool is_setting(const std::string& word) { return word.find('=') != std::string::npos; }

std::vector<std::string> keys_of(const std::string& option, plan::Work work) {
  if (is_setting(option)) return {key_of_setting(option)};
  if (const auto several = keys_of_options().find(option); several != keys_of_options().end()) return several->second;
  for (const PlanSetting& setting : plan_settings())
    if (setting.option == option)
      return {std::string(work == plan::Work::training ? setting.training_key : setting.inference_key)};
  for (const spec::ShortOption& shortened : spec::short_options())
    if (shortened.option == option) return {std::string(shortened.key)};
  return {};
}

}  // namespace

std::string key_of_setting(const std::string& word) {
  const std::string written = word.substr(0, word.find('='));
  for (const spec::Alias& alias : spec::aliases())
    if (alias.spelling == written) return std::string(alias.key);
  return written;
}

PlanCommandLine::PlanCommandLine(std::vector<Given> given, plan::Work work) : work_(work) {
  std::vector<Entry> options;
  for (Given& one : given) {
    std::vector<std::string> values;
    for (std::string& value : one.values) {
      // Settings may follow the last of --gpu-ids.
      if (one.option.empty() || (one.option == "--gpu-ids" && is_setting(value))) {
        std::vector<std::string> keys;
        if (is_setting(value)) keys.push_back(key_of_setting(value));
        entries_.push_back({{"", {std::move(value)}}, std::move(keys)});
      } else {
        values.push_back(std::move(value));
      }
    }
    if (!one.option.empty()) options.push_back({{one.option, std::move(values)}, keys_of(one.option, work)});
  }
  std::ranges::move(options, std::back_inserter(entries_));
}

std::string PlanCommandLine::operator()(const std::vector<plan::SettingChange>& changes) const {
  const auto command =
      work_ == plan::Work::training ? spec::Command::plan_training : spec::Command::plan_inference;
  const std::vector<RemedyWords> typed = remedy_words(command, changes).value_or(std::vector<RemedyWords>());
  std::string line = "muster plan";
  const auto changed = [&](const Entry& entry) {
    return std::ranges::any_of(typed, [&](const RemedyWords& words) {
      const std::vector<std::string> keys = keys_of(words.option, work_);
      return words.option == entry.given.option || std::ranges::find_first_of(keys, entry.keys) != keys.end();
    });
  };
  for (const Entry& entry : entries_) {
    if (changed(entry)) continue;
    if (!entry.given.option.empty()) line += " " + entry.given.option;
    for (const std::string& value : entry.given.values) line += " " + shell_word(value);
  }
  for (const RemedyWords& words : typed) {
    line += " " + words.option;
    if (!words.value.empty()) line += " " + shell_word(words.value);
  }
  return line;
}

}  // namespace muster::planning
