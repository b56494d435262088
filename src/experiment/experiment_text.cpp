// An experiment as a file, and as what decides its outcome.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "experiment/experiment_file.hpp"

namespace muster::experiment {
namespace {

using nlohmann::ordered_json;

// YAML whose texts are quoted as JSON quotes them.
void write_yaml(const ordered_json& table, std::size_t depth, std::string& out) {
  for (const auto& [key, value] : table.items()) {
    out += fmt::format("{}{}:", std::string(2 * depth, ' '), key);
    if (!value.is_object() || value.empty()) {
      out += fmt::format(" {}\n", value.dump());
      continue;
    }
    out += '\n';
    write_yaml(value, depth + 1, out);
  }
}

void add_settings(ordered_json& table, const Settings& settings) {
  for (const Setting& setting : settings) table[setting.key] = setting.value;
}

std::string request_text(const schedule::GpuRequest& request) {
  if (!request.is_elastic()) return std::to_string(request.minimum);
  if (request.most() == schedule::most_gpus) return fmt::format("{}-all", request.minimum);
  return fmt::format("{}-{}", request.minimum, request.most());
}

ordered_json stage_json(const Stage& stage) {
  if (!stage.wanted) return "none";
  ordered_json table = ordered_json::object();
  if (!stage.command.empty()) table["command"] = stage.command;
  if (stage.gpus) table["gpus"] = request_text(*stage.gpus);
  const auto span = [&](const char* key, const std::optional<schedule::Duration>& value) {
    if (value) table[key] = fmt::format("{}ms", value->count());
  };
  span("predicted", stage.predicted);
  span("timeout", stage.timeout);
  span("heartbeat", stage.heartbeat);
  if (stage.retries > 0) table["retries"] = stage.retries;
  add_settings(table, stage.settings);
  if (table.empty()) return "muster";
  return table;
}

ordered_json choice_json(const Choice& choice) {
  ordered_json table = ordered_json::object();
  add_settings(table, choice.settings);
  return table;
}

ordered_json dataset_json(const DataSet& dataset) {
  ordered_json table = ordered_json::object();
  if (dataset.prompts) table["prompts"] = *dataset.prompts;
  if (dataset.questions) table["questions"] = *dataset.questions;
  if (dataset.exact_match) table["exact_match"] = true;
  if (dataset.keep == Keep::right) table["keep"] = "right";
  add_settings(table, dataset.settings);
  return table;
}

std::string_view device_word(spec::Device device) {
  for (const auto& word : words(spec::Device{}))
    if (word.value == device) return word.text;
  return "";
}

void flatten(const ordered_json& value, const std::string& key, std::map<std::string, std::string>& out) {
  if (!value.is_object()) {
    out[key] = value.is_string() ? value.get<std::string>() : value.dump();
    return;
  }
  for (const auto& [name, inner] : value.items()) flatten(inner, key.empty() ? name : key + "." + name, out);
}

// What decides the outcome of the jobs that the other has, too.
std::map<std::string, std::string> deciding_settings(const ExperimentSpec& spec, const ExperimentSpec& other) {
  ordered_json root{{"experiment", {{"seed", spec.seed}}}};
  add_settings(root, spec.settings);
  const auto has = [](const auto& choices, const std::string& name) {
    return std::ranges::any_of(choices, [&](const auto& choice) { return choice.name == name; });
  };
  for (const Choice& algorithm : spec.algorithms)
    if (has(other.algorithms, algorithm.name)) root["algorithms"][algorithm.name] = choice_json(algorithm);
  for (const Choice& family : spec.families)
    if (has(other.families, family.name)) root["families"][family.name] = choice_json(family);
  for (const DataSet& dataset : spec.datasets)
    if (has(other.datasets, dataset.name)) root["datasets"][dataset.name] = dataset_json(dataset);
  for (const StageKind kind : all_stages) {
    const Stage& stage = spec.stage(kind);
    ordered_json table{{"wanted", stage.wanted}};
    if (!stage.command.empty()) table["command"] = stage.command;
    add_settings(table, stage.settings);
    root[std::string(name(kind))] = std::move(table);
  }
  std::map<std::string, std::string> flat;
  flatten(root, "", flat);
  return flat;
}

}  // namespace

std::string_view builtin_experiment() {
  return R"(# SFT on sums of two digits: two small Llama shapes, two rounds.
rounds_of_training: 2
algorithms:
  sft:
    training: {max_steps: 150, batch_size: 64, learning_rate: 2e-3, warmup_steps: 10, lr_scheduler: cosine}
families:
  small: builtin:llama-0.2m
  large: builtin:llama-0.6m
datasets:
  sums: builtin:arithmetic
training: {sequence_length: 16}
train: {predicted: 30s}
evaluate: {predicted: 10s}
)";
}

std::string experiment_text(const ExperimentSpec& spec) {
  ordered_json root{{"experiment", {{"name", spec.name}, {"seed", spec.seed}}},
                    {"rounds_of_training", spec.rounds},
                    {"use_parallel_execution", spec.parallel},
                    {"output", spec.output},
                    {"device", device_word(spec.device)},
                    {"priority", spec.priority}};
  for (const Choice& algorithm : spec.algorithms) root["algorithms"][algorithm.name] = choice_json(algorithm);
  for (const Choice& family : spec.families) root["families"][family.name] = choice_json(family);
  for (const DataSet& dataset : spec.datasets) root["datasets"][dataset.name] = dataset_json(dataset);
  add_settings(root, spec.settings);
  for (const StageKind kind : all_stages) root[std::string(name(kind))] = stage_json(spec.stage(kind));
  std::string text;
  write_yaml(root, 0, text);
  return text;
}

std::vector<std::string> differences(const ExperimentSpec& before, const ExperimentSpec& now) {
  const auto old_settings = deciding_settings(before, now), new_settings = deciding_settings(now, before);
  std::vector<std::string> differing;
  for (const auto& [key, value] : old_settings)
    if (const auto found = new_settings.find(key); found == new_settings.end() || found->second != value)
      differing.push_back(key);
  for (const auto& [key, value] : new_settings)
    if (!old_settings.contains(key)) differing.push_back(key);
  return differing;
}

}  // namespace muster::experiment
