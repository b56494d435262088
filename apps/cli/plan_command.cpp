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
#include "cli/terminal.hpp"
#include "service/plan.hpp"
#include "service/plan_report.hpp"

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
    PlanSetting{"--new-tokens", "generation.max_new_tokens", "generation.max_new_tokens", "tokens per answer"},
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

// Quantised types are settings of their own.
void take_quantised_type(PlanOptions& options) {
  auto& given = options.configuration->short_values["--dtype"];
  if (given.empty()) return;
  const std::string type = to_lower(given.back());
  std::string_view key;
  if (type == "int8" || type == "8bit" || type == "8-bit") key = "model.load_in_8bit";
  if (type == "int4" || type == "4bit" || type == "4-bit" || type == "nf4") key = "model.load_in_4bit";
  if (key.empty()) return;
  given.clear();
  options.configuration->settings.push_back(fmt::format("{}=true", key));
}

Result<void> take_settings(PlanOptions& options) {
  std::vector<std::string>& words = options.configuration->settings;
  for (const PlanSetting& setting : plan_settings) {
    const auto given = options.values.find(std::string(setting.option));
    if (given == options.values.end() || given->second.empty()) continue;
    const std::string_view key = options.train ? setting.training_key : setting.inference_key;
    if (key.empty())
      return bad_option(
          fmt::format("{} has no meaning in {}", setting.option, options.train ? "training" : "inference"),
          options.train ? "leave it out, or plan with --infer" : "leave it out, or plan with --train");
    words.push_back(fmt::format("{}={}", key, given->second));
  }
  if (options.max_memory) {
    auto table = limits_as_table(*options.max_memory);
    if (!table) return table.error();
    words.push_back("model.max_memory=" + *table);
  }
  if (options.checkpointing) words.emplace_back("training.gradient_checkpointing=true");
  if (options.offload) words.emplace_back("distributed.fsdp_cpu_offload=true");
  if (options.adapter_rank) {
    words.emplace_back("model.use_lora=true");
    words.push_back(fmt::format("model.lora_r={}", *options.adapter_rank));
  }
  return {};
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

Result<service::PlanWish> plan_wish(PlanOptions& options) {
  if (auto taken = take_subject(options); !taken) return taken.error();
  take_quantised_type(options);
  if (auto taken = take_settings(options); !taken) return taken.error();
  const spec::Schema schema;
  auto resolved = resolve_configuration(schema, *options.configuration);
  if (!resolved) return resolved.error();
  service::PlanWish wish;
  wish.spec = std::move(resolved->spec);
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
service::PlanCommandLine command_line(const CLI::App& command, bool inference) {
  std::vector<service::PlanCommandLine::Given> given;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const bool flag = option->get_expected_max() == 0;
    const auto names = option->get_lnames();
    const std::string name = names.empty() ? "" : "--" + names.front();
    if (name == "--json" || name == "--plot") continue;
    service::PlanCommandLine::Given entry{name, flag ? std::vector<std::string>{} : option->results()};
    // A setting that a changed option stands for gives way to it: words of one key are kept as that option.
    if (!name.empty()) {
      given.push_back(std::move(entry));
      continue;
    }
    for (const std::string& word : entry.values) {
      service::PlanCommandLine::Given single{"", {word}};
      for (const PlanSetting& setting : plan_settings) {
        const std::string_view key = inference ? setting.inference_key : setting.training_key;
        if (!key.empty() && word.starts_with(fmt::format("{}=", key)))
          single = {std::string(setting.option), {word.substr(key.size() + 1)}};
      }
      given.insert(given.begin(), std::move(single));
    }
  }
  return service::PlanCommandLine(std::move(given));
}

Result<void> write_plot(const PlanOptions& options, const plan::Question& question, const plan::Plan& made) {
  if (!options.plot) return {};
  return write_file_atomically(*options.plot, service::plan_plot(question, made));
}

int run_plan(PlanOptions options, const CLI::App& command) {
  if (options.train && options.infer)
    return report(bad_option("--train and --infer are both given", "keep one of the two"));
  const service::PlanCommandLine typed = command_line(command, !options.train);
  auto wish = plan_wish(options);
  if (!wish) return report(wish.error());
  service::Host host = open_host(*options.inventory);
  auto question = service::plan_question(host, *wish);
  if (!question) return report(question.error());
  auto made = plan::make_plan(*question);
  if (!made) return report(made.error());
  if (auto written = write_plot(options, *question, *made); !written) return report(written.error());
  if (options.json)
    fmt::print("{}\n", service::plan_json(*question, *made, typed));
  else
    fmt::print("{}", service::plan_text(*question, *made, typed, output_has_colour()));
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
