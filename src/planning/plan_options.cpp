#include "planning/plan_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "base/text.hpp"
#include "planning/plan_question.hpp"
#include "spec/alias.hpp"
#include "spec/model/model_search.hpp"
#include "spec/packed_name.hpp"
#include "system/files.hpp"

namespace muster::planning {
namespace {

constexpr std::array plan_table{
    PlanSetting{"--seq-len", "training.sequence_length", "generation.sequence_length",
                "tokens per sequence; of inference: prompt and answer together"},
    PlanSetting{"--batch", "training.batch_size", "generation.batch_size",
                "sequences per optimizer step over all ranks; of inference: at once on a device"},
    PlanSetting{"--micro-batch", "training.micro_batch_size", "", "sequences per rank and pass; not set: what fits"},
    PlanSetting{"--accumulation", "training.gradient_accumulation_steps", "", "passes per optimizer step"},
    PlanSetting{"--new-tokens", "", "generation.max_new_tokens", "tokens per answer"},
    PlanSetting{"--optimizer", "training.optimizer", "", "adamw, adamw_fused, adamw_8bit, sgd or sgd_momentum"},
    PlanSetting{"--mixed-precision", "training.mixed_precision", "",
                "auto, no, bf16 or fp16: computed in that type, weights kept in float32"},
    PlanSetting{"--attention", "system.attn_impl", "system.attn_impl", "sdpa, eager or flash_attention_2"},
    PlanSetting{"--sharding", "distributed.fsdp_sharding_strategy", "distributed.fsdp_sharding_strategy",
                "what FSDP shards: full_shard, shard_grad_op, no_shard or hybrid_shard"},
    PlanSetting{"--nodes", "distributed.num_nodes", "distributed.num_nodes", "equal hosts"},
    PlanSetting{"--device-map", "", "model.device_map",
                "auto, balanced, balanced_low_0, sequential, cuda, cpu, a GPU's number, or {module: device, …}"},
};

constexpr std::array option_table{
    PlanOption{"--train", &PlanOptions::train, "plan training"},
    PlanOption{"--infer", &PlanOptions::infer, "plan inference (unless a run's configuration is given)"},
    PlanOption{"--params", &PlanOptions::parameters, "a model of this size instead of a file, as in 70B"},
    PlanOption{"--max-memory", &PlanOptions::max_memory,
               "most memory per device, as in 0=10GB,1=10GB,cpu=30GiB; GPUs that are not named are not used"},
    PlanOption{"--cpu-memory", &PlanOptions::cpu_memory,
               "let modules that no GPU holds lie in host memory, up to this size"},
    PlanOption{"--disk-memory", &PlanOptions::disk_memory, "likewise on disk"},
    PlanOption{"--checkpointing", &PlanOptions::checkpointing, "recompute activations instead of keeping them"},
    PlanOption{"--offload", &PlanOptions::offload, "keep FSDP's shards in host memory"},
    PlanOption{"--lora", &PlanOptions::adapter_rank, "train low-rank adapters of this rank instead of the weights"},
    PlanOption{"--implementation", &PlanOptions::implementation,
               "who computes: transformers (eager PyTorch), or muster's engine"},
    PlanOption{
        "--planner", &PlanOptions::planner,
        "who lays out modules: optimal; compat (accelerate's map, key for key); transformers (from_pretrained's)"},
    PlanOption{"--allocator", &PlanOptions::allocator,
               "PyTorch's allocator: default or expandable; auto: as PYTORCH_CUDA_ALLOC_CONF says"},
    PlanOption{"--constants", &PlanOptions::constants,
               "file with measured constants of the memory model (docs/memory-model.md)"},
};

// A run's configuration and a model's config.json are both tables: the model's names its type.
bool is_run_configuration(const std::string& word) {
  const std::filesystem::path path(word);
  if (path.extension() == ".yaml" || path.extension() == ".yml") return true;
  if (path.extension() != ".json" || path.filename() == "config.json") return false;
  const auto text = read_file(path);
  if (!text) return false;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  return json.is_object() && !json.contains("model_type") && !json.contains("architectures");
}

// The word that is not a setting: the model, or the run's configuration.
Result<void> take_subject(PlanOptions& options) {
  std::vector<std::string>& words = options.configuration.settings;
  std::vector<std::string> subjects;
  std::erase_if(words, [&](const std::string& word) {
    const bool setting = word.find('=') != std::string::npos && !std::filesystem::exists(word);
    if (!setting) subjects.push_back(word);
    return !setting;
  });
  if (subjects.size() > 1)
    return bad_input(fmt::format("{} and {} are both given", subjects[0], subjects[1]),
                     "one model, or one configuration file");
  if (subjects.empty()) return {};
  if (is_run_configuration(subjects[0])) {
    options.configuration.file = subjects[0];
    if (!options.infer) options.train = true;
  } else if (const auto& named = options.configuration.short_values["--model"]; !named.empty()) {
    return bad_input(fmt::format("--model {} and {} are both given", named.front(), subjects[0]), "name one model");
  } else {
    words.insert(words.begin(), "model.path=" + subjects[0]);
  }
  return {};
}

bool is_typed(const PlanOptions& options, std::string_view key) {
  return std::ranges::any_of(options.configuration.settings,
                             [key](const std::string& word) { return key_of_setting(word) == key; });
}

void set(PlanOptions& options, std::string_view option, std::string_view key, std::string value) {
  options.configuration.overrides.push_back({std::string(key), std::move(value), std::string(option)});
}

// A setting that an option implies, unless the user typed a value for it.
void imply(PlanOptions& options, std::string_view option, std::string_view key, bool value) {
  if (!is_typed(options, key)) set(options, option, key, value ? "true" : "false");
}

// Quantised types are settings of their own; a type that is typed overrides those of a file.
Result<void> take_type(PlanOptions& options) {
  auto& given = options.configuration.short_values["--dtype"];
  if (given.empty()) return {};
  const std::string type = to_lower(given.back());
  const bool eight = type == "int8" || type == "8bit" || type == "8-bit";
  const bool four = type == "int4" || type == "4bit" || type == "4-bit" || type == "nf4";
  std::vector<std::string> accepted;
  for (const auto& word : spec::words(spec::DataType{})) accepted.push_back(to_lower(word.text));
  if (!eight && !four && std::ranges::find(accepted, type) == accepted.end())
    return bad_input(fmt::format("--dtype is \"{}\"", given.back()),
                     fmt::format("accepted: {}, int8, int4", join(accepted, ", ")));
  imply(options, "--dtype", "model.load_in_8bit", eight);
  imply(options, "--dtype", "model.load_in_4bit", four);
  if (eight || four) given.clear();
  return {};
}

Error no_meaning(std::string_view option, bool training) {
  return bad_input(fmt::format("{} has no meaning in {}", option, training ? "training" : "inference"),
                   fmt::format("leave it out, or plan with {}", training ? "--infer" : "--train"));
}

// Flags, and --lora: all of them are about training.
Result<void> take_training_options(PlanOptions& options) {
  for (const auto& [option, given] : {std::pair<std::string_view, bool>{"--checkpointing", options.checkpointing},
                                      {"--offload", options.offload},
                                      {"--lora", options.adapter_rank.has_value()}})
    if (given && !options.train) return no_meaning(option, false);
  if (options.checkpointing) set(options, "--checkpointing", "training.gradient_checkpointing", "true");
  if (options.offload) set(options, "--offload", "distributed.fsdp_cpu_offload", "true");
  if (options.adapter_rank) {
    set(options, "--lora", "model.use_lora", "true");
    set(options, "--lora", "model.lora_r", std::to_string(*options.adapter_rank));
  }
  return {};
}

Result<void> take_settings(PlanOptions& options) {
  for (const PlanSetting& setting : plan_table) {
    const auto given = options.values.find(std::string(setting.option));
    if (given == options.values.end() || given->second.empty()) continue;
    const std::string_view key = options.train ? setting.training_key : setting.inference_key;
    if (key.empty()) return no_meaning(setting.option, options.train);
    set(options, setting.option, key, given->second);
  }
  if (options.max_memory) {
    auto table = limits_as_table(*options.max_memory);
    if (!table) return table.error();
    set(options, "--max-memory", "model.max_memory", std::move(*table));
  }
  if (!options.values["--mixed-precision"].empty()) {
    imply(options, "--mixed-precision", "training.bf16", false);
    imply(options, "--mixed-precision", "training.fp16", false);
  }
  return take_training_options(options);
}

template <class Value, std::size_t Count>
Result<Value> pick_word(std::string_view option, const std::string& given,
                        const std::array<std::pair<std::string_view, Value>, Count>& known) {
  std::vector<std::string> words;
  for (const auto& [word, value] : known) {
    if (word == given) return value;
    words.emplace_back(word);
  }
  return bad_input(fmt::format("{} is \"{}\"", option, given), "accepted: " + join(words, ", "));
}

Result<void> add_off_gpu_limit(spec::DeviceLimits& limits, const std::string& device, std::string_view option,
                               const std::optional<std::string>& size) {
  if (!size) return {};
  auto bytes = parse_byte_count(*size);
  if (!bytes) return bad_input(fmt::format("{}: {}", option, bytes.error().what), bytes.error().remedy);
  limits[device] = *bytes;
  return {};
}

Result<PlanRequest> plan_request_of(const PlanOptions& options, spec::RunSpec settings) {
  PlanRequest request;
  request.spec = std::move(settings);
  if (auto taken = spec::take_packed_name(request.spec.model, spec::model_search_from_environment()); !taken)
    return taken.error();
  request.work = options.train ? plan::Work::training : plan::Work::inference;
  if (options.parameters) {
    auto count = spec::parse_parameter_count(*options.parameters);
    if (!count) return bad_input("--params: " + count.error().what, count.error().remedy);
    request.parameters = *count;
  }
  using plan::Implementation;
  using plan::Planner;
  constexpr std::array implementations{
      std::pair<std::string_view, Implementation>{"transformers", Implementation::transformers},
      std::pair<std::string_view, Implementation>{"muster", Implementation::muster}};
  constexpr std::array planners{std::pair<std::string_view, Planner>{"optimal", Planner::optimal},
                                std::pair<std::string_view, Planner>{"compat", Planner::accelerate},
                                std::pair<std::string_view, Planner>{"transformers", Planner::transformers}};
  constexpr std::array allocators{std::pair<std::string_view, std::optional<bool>>{"auto", std::nullopt},
                                  std::pair<std::string_view, std::optional<bool>>{"default", false},
                                  std::pair<std::string_view, std::optional<bool>>{"expandable", true}};
  auto implementation = pick_word("--implementation", options.implementation, implementations);
  if (!implementation) return implementation.error();
  auto planner = pick_word("--planner", options.planner, planners);
  if (!planner) return planner.error();
  auto allocator = pick_word("--allocator", options.allocator, allocators);
  if (!allocator) return allocator.error();
  request.implementation = *implementation;
  request.planner = *planner;
  request.expandable_segments = *allocator;
  if (options.constants) request.constants = *options.constants;
  spec::DeviceLimits& limits = request.spec.model.max_memory;
  if (auto added = add_off_gpu_limit(limits, "cpu", "--cpu-memory", options.cpu_memory); !added) return added.error();
  if (auto added = add_off_gpu_limit(limits, "disk", "--disk-memory", options.disk_memory); !added)
    return added.error();
  return request;
}

// The values of one option: every option except --gpu-ids has one.
Result<std::string> only_value(const PlanCommandLine::Given& given) {
  if (given.values.size() == 1) return given.values.front();
  return bad_input(fmt::format("{} has {} values", given.option, given.values.size()), "give it one");
}

Result<void> assign(PlanOptions& options, const PlanOption& option, const PlanCommandLine::Given& given) {
  if (const auto* flag = std::get_if<bool PlanOptions::*>(&option.member)) {
    options.** flag = true;
    return {};
  }
  auto value = only_value(given);
  if (!value) return value.error();
  if (const auto* number = std::get_if<std::optional<std::int64_t> PlanOptions::*>(&option.member)) {
    const auto parsed = parse_number<std::int64_t>(*value);
    if (!parsed) return bad_input(fmt::format("{} is \"{}\"", option.option, *value), "give a whole number");
    options.** number = *parsed;
  } else if (const auto* text = std::get_if<std::string PlanOptions::*>(&option.member)) {
    options.** text = *value;
  } else {
    options.*std::get<std::optional<std::string> PlanOptions::*>(option.member) = *value;
  }
  return {};
}

Result<void> take_given(PlanOptions& options, const PlanCommandLine::Given& given) {
  if (given.option == "--gpus-from") return {};
  std::vector<std::string>& words = options.configuration.settings;
  if (given.option.empty()) {
    words.insert(words.end(), given.values.begin(), given.values.end());
    return {};
  }
  const auto same = [&](const auto& known) { return known.option == given.option; };
  if (const auto found = std::ranges::find_if(option_table, same); found != option_table.end())
    return assign(options, *found, given);
  if (std::ranges::any_of(spec::short_options(), same)) {
    options.configuration.short_values[given.option] = given.values;
    return {};
  }
  if (std::ranges::none_of(plan_table, same))
    return bad_input(fmt::format("{} is not an option of a plan", given.option), "muster plan --help lists them");
  auto value = only_value(given);
  if (!value) return value.error();
  options.values[given.option] = *value;
  return {};
}

}  // namespace

Result<std::string> limits_as_table(const std::string& text) {
  std::vector<std::string> entries;
  for (const std::string& part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string::npos)
      return bad_input(fmt::format("--max-memory: \"{}\" is not DEVICE=SIZE", part),
                       "--max-memory 0=10GB,1=10GB,cpu=30GiB");
    entries.push_back(fmt::format("{}: {}", trim(std::string_view(part).substr(0, equals)),
                                  trim(std::string_view(part).substr(equals + 1))));
  }
  return "{" + join(entries, ", ") + "}";
}

std::span<const PlanSetting> plan_settings() { return plan_table; }
std::span<const PlanOption> plan_options() { return option_table; }

Result<PlanOptions> read_plan_options(std::span<const PlanCommandLine::Given> given) {
  PlanOptions options;
  for (const PlanCommandLine::Given& entry : given)
    if (auto taken = take_given(options, entry); !taken) return taken.error();
  return options;
}

Result<spec::ResolvedSpec> resolve_plan_settings(PlanOptions& options) {
  if (options.train && options.infer) return bad_input("--train and --infer are both given", "keep one of the two");
  if (auto taken = take_subject(options); !taken) return taken.error();
  if (auto taken = take_type(options); !taken) return taken.error();
  if (auto taken = take_settings(options); !taken) return taken.error();
  options.configuration.command = options.train ? spec::Command::plan_training : spec::Command::plan_inference;
  return resolve_configuration(spec::Schema(), options.configuration);
}

Result<PlanAnswer> answer_plan(host::Host& host, PlanOptions options) {
  auto settings = resolve_plan_settings(options);
  if (!settings) return settings.error();
  const auto request = plan_request_of(options, std::move(settings->spec));
  if (!request) return request.error();
  auto question = plan_question(host, *request);
  if (!question) return question.error();
  auto made = plan::make_plan(*question);
  if (!made) return made.error();
  if (request->work == plan::Work::training) add_phases_of_rounds(request->spec, *question, *made);
  return PlanAnswer{std::move(*question), std::move(*made), std::move(settings->notes)};
}

}  // namespace muster::planning
