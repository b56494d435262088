// muster plan: whether work fits, where everything goes, and what to change when it does not.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/configuration_options.hpp"
#include "cli/plan_text.hpp"
#include "cli/terminal.hpp"
#include "service/plan.hpp"
#include "spec/alias.hpp"

namespace muster::cli {
namespace {

// An option that is short for a setting; which one may depend on the work.
struct PlanSetting {
  std::string_view option;
  std::string_view training_key;
  std::string_view inference_key;
  std::string_view help;
};
constexpr std::array plan_settings{
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

// Options that stand for several settings, or for one that is set by a flag.
const std::map<std::string, std::vector<std::string>> keys_of_options{
    {"--dtype", {"model.dtype", "model.load_in_8bit", "model.load_in_4bit"}},
    {"--mixed-precision", {"training.mixed_precision", "training.bf16", "training.fp16"}},
    {"--gpu-ids", {"distributed.gpu_ids", "distributed.num_gpus"}},
    {"--device-map", {"model.device_map", "model.auto_device_map"}},
    {"--max-memory", {"model.max_memory"}},
    {"--checkpointing", {"training.gradient_checkpointing"}},
    {"--offload", {"distributed.fsdp_cpu_offload"}},
    {"--lora", {"model.use_lora", "model.lora_r"}},
};

std::vector<std::string> keys_of(const std::string& option, bool training) {
  if (const auto several = keys_of_options.find(option); several != keys_of_options.end()) return several->second;
  for (const PlanSetting& setting : plan_settings)
    if (setting.option == option) return {std::string(training ? setting.training_key : setting.inference_key)};
  for (const spec::ShortOption& shortened : spec::short_options())
    if (shortened.option == option) return {std::string(shortened.key)};
  return {};
}

// "max_seq_length=512" → "training.sequence_length".
std::string key_of_word(const std::string& word) {
  const std::string written = word.substr(0, word.find('='));
  for (const spec::Alias& alias : spec::aliases())
    if (alias.spelling == written) return std::string(alias.key);
  return written;
}

struct PlanOptions {
  std::shared_ptr<ConfigurationOptions> configuration;
  std::shared_ptr<InventoryOption> inventory;
  std::map<std::string, std::string> values;  // of plan_settings
  std::optional<std::string> parameters;
  std::optional<std::string> max_memory;
  std::optional<std::string> cpu_memory;
  std::optional<std::string> disk_memory;
  std::optional<std::int64_t> adapter_rank;
  std::string implementation = "transformers";
  std::string planner = "optimal";
  std::string allocator = "auto";
  std::optional<std::string> constants;
  std::optional<std::string> plot;
  bool train = false;
  bool infer = false;
  bool checkpointing = false;
  bool offload = false;
  bool json = false;
  bool map_only = false;
};

Error bad_option(std::string what, std::string remedy) {
  return {Error::Kind::bad_input, std::move(what), std::move(remedy)};
}

// A run's configuration and a model's config.json are both tables: the model's says what it is.
bool is_run_configuration(const std::string& word) {
  const std::filesystem::path path(word);
  if (path.extension() == ".yaml" || path.extension() == ".yml") return true;
  if (path.extension() != ".json" || path.filename() == "config.json") return false;
  const auto text = read_file(path);
  if (!text) return false;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  return json.is_object() && !json.contains("model_type") && !json.contains("architectures");
}

// "0=10GB,1=8GiB,cpu=30GiB" → "{0: 10GB, 1: 8GiB, cpu: 30GiB}".
Result<std::string> limits_as_table(const std::string& text) {
  std::vector<std::string> entries;
  for (const std::string& part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string::npos)
      return bad_option(fmt::format("--max-memory: \"{}\" is no DEVICE=SIZE", part),
                        "--max-memory 0=10GB,1=10GB,cpu=30GiB");
    entries.push_back(fmt::format("{}: {}", trim(std::string_view(part).substr(0, equals)),
                                  trim(std::string_view(part).substr(equals + 1))));
  }
  return "{" + join(entries, ", ") + "}";
}

// The word that is no setting: the model, or the run's configuration.
Result<void> take_subject(PlanOptions& options) {
  std::vector<std::string>& words = options.configuration->settings;
  std::vector<std::string> subjects;
  std::erase_if(words, [&](const std::string& word) {
    const bool setting = word.find('=') != std::string::npos && !std::filesystem::exists(word);
    if (!setting) subjects.push_back(word);
    return !setting;
  });
  if (subjects.size() > 1)
    return bad_option(fmt::format("{} and {} are both given", subjects[0], subjects[1]),
                      "one model, or one configuration file");
  if (subjects.empty()) return {};
  if (is_run_configuration(subjects[0])) {
    options.configuration->file = subjects[0];
    if (!options.infer) options.train = true;
  } else {
    words.insert(words.begin(), "model.path=" + subjects[0]);
  }
  return {};
}

bool is_typed(const PlanOptions& options, std::string_view key) {
  return std::ranges::any_of(options.configuration->settings,
                             [key](const std::string& word) { return key_of_word(word) == key; });
}

void set(PlanOptions& options, std::string_view option, std::string_view key, std::string value) {
  options.configuration->overrides.push_back({std::string(key), std::move(value), std::string(option)});
}

// A setting that an option implies, unless the user typed a value of it.
void imply(PlanOptions& options, std::string_view option, std::string_view key, bool value) {
  if (!is_typed(options, key)) set(options, option, key, value ? "true" : "false");
}

// Quantised types are settings of their own; a type that is typed overrules those of a file.
Result<void> take_type(PlanOptions& options) {
  auto& given = options.configuration->short_values["--dtype"];
  if (given.empty()) return {};
  const std::string type = to_lower(given.back());
  const bool eight = type == "int8" || type == "8bit" || type == "8-bit";
  const bool four = type == "int4" || type == "4bit" || type == "4-bit" || type == "nf4";
  std::vector<std::string> accepted;
  for (const auto& word : spec::words(spec::DataType{})) accepted.push_back(to_lower(word.text));
  if (!eight && !four && std::ranges::find(accepted, type) == accepted.end())
    return bad_option(fmt::format("--dtype is \"{}\"", given.back()),
                      fmt::format("accepted: {}, int8, int4", join(accepted, ", ")));
  imply(options, "--dtype", "model.load_in_8bit", eight);
  imply(options, "--dtype", "model.load_in_4bit", four);
  if (eight || four) given.clear();
  return {};
}

Error no_meaning(std::string_view option, bool training) {
  return bad_option(fmt::format("{} has no meaning in {}", option, training ? "training" : "inference"),
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
  for (const PlanSetting& setting : plan_settings) {
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
  return bad_option(fmt::format("{} is \"{}\"", option, given), "accepted: " + join(words, ", "));
}

Result<void> add_off_gpu_limit(spec::DeviceLimits& limits, const std::string& device, std::string_view option,
                               const std::optional<std::string>& size) {
  if (!size) return {};
  auto bytes = parse_byte_count(*size);
  if (!bytes) return bad_option(fmt::format("{}: {}", option, bytes.error().what), bytes.error().remedy);
  limits[device] = *bytes;
  return {};
}

Result<spec::ResolvedSpec> resolved_settings(const spec::Schema& schema, PlanOptions& options) {
  if (auto taken = take_subject(options); !taken) return taken.error();
  if (auto taken = take_type(options); !taken) return taken.error();
  if (auto taken = take_settings(options); !taken) return taken.error();
  return resolve_configuration(schema, *options.configuration);
}

Result<service::PlanWish> plan_wish(const PlanOptions& options, spec::RunSpec spec) {
  service::PlanWish wish;
  wish.spec = std::move(spec);
  wish.work = options.train ? plan::Work::training : plan::Work::inference;
  if (options.parameters) {
    auto count = spec::parse_parameter_count(*options.parameters);
    if (!count) return bad_option("--params: " + count.error().what, count.error().remedy);
    wish.parameters = *count;
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
  wish.implementation = *implementation;
  wish.planner = *planner;
  wish.expandable_segments = *allocator;
  if (options.constants) wish.constants = *options.constants;
  spec::DeviceLimits& limits = wish.spec.model.max_memory;
  if (auto added = add_off_gpu_limit(limits, "cpu", "--cpu-memory", options.cpu_memory); !added) return added.error();
  if (auto added = add_off_gpu_limit(limits, "disk", "--disk-memory", options.disk_memory); !added)
    return added.error();
  return wish;
}

// What was typed, option by option, so that a remedy can repeat it with one change.
PlanCommandLine command_line(const CLI::App& command, bool training) {
  std::vector<PlanCommandLine::Given> options, words;
  const auto take_word = [&](const std::string& word) {
    const bool setting = word.find('=') != std::string::npos;
    words.push_back({"", {word}, setting ? std::vector{key_of_word(word)} : std::vector<std::string>{}});
  };
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const auto names = option->get_lnames();
    const std::string name = names.empty() ? "" : "--" + names.front();
    if (name == "--json" || name == "--plot") continue;
    PlanCommandLine::Given entry{name, {}, keys_of(name, training)};
    const bool flag = option->get_expected_max() == 0;
    // Settings may follow the last of --gpu-ids.
    for (const std::string& value : flag ? std::vector<std::string>{} : option->results())
      if (name.empty() || (name == "--gpu-ids" && value.find('=') != std::string::npos))
        take_word(value);
      else
        entry.values.push_back(value);
    if (!name.empty()) options.push_back(std::move(entry));
  }
  words.insert(words.end(), options.begin(), options.end());
  return PlanCommandLine(std::move(words), [training](const std::string& option) { return keys_of(option, training); });
}

Result<void> write_plot(const PlanOptions& options, const plan::Question& question, const plan::Plan& made) {
  if (!options.plot) return {};
  return write_file_atomically(*options.plot, plan_plot(question, made));
}

int run_plan(PlanOptions options, const CLI::App& command) {
  if (options.train && options.infer)
    return report(bad_option("--train and --infer are both given", "keep one of the two"));
  const spec::Schema schema;
  auto resolved = resolved_settings(schema, options);
  if (!resolved) return report(resolved.error());
  if (options.configuration->print) {
    print_resolved(schema, *resolved, options.json);
    return 0;
  }
  auto wish = plan_wish(options, std::move(resolved->spec));
  if (!wish) return report(wish.error());
  const PlanCommandLine typed = command_line(command, wish->work == plan::Work::training);
  service::Host host = open_host(*options.inventory);
  auto question = service::plan_question(host, *wish);
  if (!question) return report(question.error());
  auto made = plan::make_plan(*question);
  if (!made) return report(made.error());
  if (auto written = write_plot(options, *question, *made); !written) return report(written.error());
  if (options.json)
    fmt::print("{}\n", plan_json(*question, *made, typed));
  else
    fmt::print("{}", plan_text(*question, *made, typed, output_has_colour()));
  return made->fits() ? 0 : exit_code(Error::Kind::refused);
}

}  // namespace

void add_plan_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "plan", "show whether a model fits, where every byte goes, and what to change when it does not");
  auto options = std::make_shared<PlanOptions>();
  command->add_flag("--train", options->train, "plan training");
  command->add_flag("--infer", options->infer, "plan inference (unless a run's configuration is given)");
  command->add_option("--params", options->parameters, "a model of this size instead of a file, as in 70B");
  for (const PlanSetting& setting : plan_settings)
    command->add_option(std::string(setting.option), options->values[std::string(setting.option)],
                        std::string(setting.help));
  command->add_option("--max-memory", options->max_memory,
                      "most memory per device, as in 0=10GB,1=10GB,cpu=30GiB; GPUs that are not named are not used");
  command->add_option("--cpu-memory", options->cpu_memory,
                      "let modules that no GPU holds lie in host memory, up to this size");
  command->add_option("--disk-memory", options->disk_memory, "likewise on disk");
  command->add_flag("--checkpointing", options->checkpointing, "recompute activations instead of keeping them");
  command->add_flag("--offload", options->offload, "keep FSDP's shards in host memory");
  command->add_option("--lora", options->adapter_rank, "train low-rank adapters of this rank instead of the weights");
  command
      ->add_option("--implementation", options->implementation,
                   "who computes: transformers (eager PyTorch), or muster's engine")
      ->capture_default_str();
  command
      ->add_option(
          "--planner", options->planner,
          "who lays out modules: optimal; compat (accelerate's map, key for key); transformers (from_pretrained's)")
      ->capture_default_str();
  command
      ->add_option("--allocator", options->allocator,
                   "PyTorch's allocator: default or expandable; auto: as PYTORCH_CUDA_ALLOC_CONF says")
      ->capture_default_str();
  command->add_option("--constants", options->constants,
                      "file with measured constants of the memory model (docs/memory-model.md)");
  command->add_option("--plot", options->plot, "write a picture of the plan to this SVG file");
  command->add_flag("--json", options->json, "for programs");
  options->inventory = add_inventory_option(*command);
  options->configuration = add_configuration_options(*command);
  command->get_option("SETTINGS")
      ->description(
          "the model (folder, config.json, GGUF file, name in the Hugging Face cache) or a run's configuration file; "
          "settings as section.key=value");
  command->callback([&action, options, command] {
    action.run = [options, command](const Tail&) { return run_plan(*options, *command); };
  });
}

}  // namespace muster::cli
