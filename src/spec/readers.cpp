#include "spec/readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "spec/capability_command.hpp"
#include "spec/codec.hpp"
#include "spec/policy_options.hpp"

namespace muster::spec {
namespace {

using enum Command;

struct CommandName {
  Command command;
  std::string_view name;
};
constexpr std::array command_names{
    CommandName{train, "muster train"},
    CommandName{generate, "muster generate"},
    CommandName{evaluate, "muster evaluate"},
    CommandName{collect, "muster collect"},
    CommandName{serve_environments, "muster serve-environments"},
    CommandName{plan_training, "muster plan --train"},
    CommandName{plan_inference, "muster plan --infer"},
    CommandName{run, "muster run"},
    CommandName{sweep, "muster sweep"},
};

struct Row {
  std::string_view key;  // of one setting, or a section with its dot
  std::vector<Command> readers;
};

// The longest key that matches a setting counts.
const std::vector<Row>& reader_table() {
  static const std::vector<Command> everyone{train, generate, evaluate, collect, plan_training, plan_inference};
  static const std::vector<Command> jobs{train, generate, evaluate, collect};
  static const std::vector<Command> plans_of_training{train, plan_training};
  static const std::vector<Row> rows{
      {"experiment.", {train}},
      {"experiment.seed", {train, generate, evaluate, collect, serve_environments}},
      {"experiment.resume", {train, generate}},
      {"experiment.rounds_of_training", {run}},

      {"distributed.", {train}},
      {"distributed.enabled", everyone},
      {"distributed.device", everyone},
      {"distributed.num_gpus", everyone},
      {"distributed.gpu_ids", everyone},
      {"distributed.ranks", jobs},
      {"distributed.strategy", {train, plan_training, plan_inference}},
      {"distributed.backend", jobs},
      {"distributed.num_nodes", {train, plan_training, plan_inference}},
      {"distributed.timeout_minutes", jobs},
      {"distributed.fsdp_sharding_strategy", plans_of_training},
      {"distributed.fsdp_cpu_offload", plans_of_training},
      {"distributed.fsdp_group_size", plans_of_training},
      {"distributed.tensor_parallel", everyone},
      {"distributed.pipeline_parallel", everyone},

      {"model.", everyone},
      {"model.adapters", jobs},
      {"model.tokenizer", jobs},
      {"model.init", jobs},
      {"model.bnb_4bit_quant_type", jobs},
      {"model.llm_int8_enable_fp32_cpu_offload", {plan_inference}},
      {"model.use_lora", plans_of_training},
      {"model.lora_r", plans_of_training},
      {"model.lora_alpha", {train}},
      {"model.lora_dropout", plans_of_training},
      {"model.lora_target_modules", plans_of_training},
      {"model.lora_exclude_modules", plans_of_training},
      {"model.use_rslora", {train}},
      {"model.use_dora", plans_of_training},
      {"model.modules_to_save", plans_of_training},

      {"training.", {train}},
      {"training.algorithm", plans_of_training},
      {"sft.", {train}},
      {"dpo.", {train}},
      {"simpo.", {train}},
      {"orpo.", {train}},
      {"kto.", {train}},
      {"reward_model.", {train}},
      {"grpo.", {train}},
      {"grpo.num_generations", plans_of_training},
      {"grpo.beta", plans_of_training},
      {"rloo.", {train}},
      {"rloo.num_generations", plans_of_training},
      {"rloo.beta", plans_of_training},
      {"ppo.", {train}},
      {"ppo.kl_coef", plans_of_training},
      {"ppo.critic", plans_of_training},
      {"reward.", {train}},
      {"reward.scale", {train, collect}},
      {"reward.bias", {train, collect}},
      {"reward.clip", {train, collect}},
      {"environment.", {train, collect, serve_environments}},
      {"environment.evaluations", {train}},
      {"environment.max_result_tokens", {train, collect}},
      {"environment.server", {train, collect}},
      {"environment.token_file", {train, collect}},
      {"training.max_episode_length", {train, collect, serve_environments}},
      {"training.batch_size", plans_of_training},
      {"training.num_rollouts_per_iteration", plans_of_training},
      {"training.micro_batch_size", plans_of_training},
      {"training.gradient_accumulation_steps", plans_of_training},
      {"training.sequence_length", {train, evaluate, plan_training}},
      {"training.optimizer", plans_of_training},
      {"training.mixed_precision", plans_of_training},
      {"training.fp16", plans_of_training},
      {"training.bf16", plans_of_training},
      {"training.gradient_checkpointing", plans_of_training},
      {"training.deterministic", plans_of_training},

      {"generation.", {generate, collect}},
      {"generation.samples", {generate}},
      {"generation.max_new_tokens", {generate, collect, plan_inference}},
      {"generation.sequence_length", {generate, collect, plan_inference}},
      {"generation.batch_size", {generate, collect, plan_inference}},

      {"data.", {train, evaluate}},
      {"data.path", {train, evaluate, collect}},
      {"data.operations", {train, evaluate, collect}},
      {"data.digits", {train, evaluate, collect}},
      {"data.held_out", {train, evaluate, collect}},
      {"data_collection.", {run}},
      {"data_collection.reward_batch_size", {train, run}},
      {"algos.", {run}},

      {"system.", {train}},
      {"system.attn_impl", everyone},
      {"system.deterministic", jobs},
      {"system.use_parallel_execution", {run}},

      {"sweep.", {sweep}},
  };
  return rows;
}

// What to do instead, if a command has its own answer.
struct Hint {
  Command command;
  std::string_view key, remedy;
};
constexpr std::array hints{
    Hint{generate, "experiment.name", "muster generate makes no run folder: the file for the answers is -o FILE"},
    Hint{generate, "experiment.output", "muster generate makes no run folder: the file for the answers is -o FILE"},
    Hint{generate, "distributed.strategy",
         "leave it out: each rank has the whole model, or layers by a device map (--device-map auto)"},
    Hint{generate, "distributed.num_nodes",
         "leave it out: generation is one host's work; share the prompts among the hosts, a file each"},
    Hint{evaluate, "distributed.num_nodes", "leave it out: an evaluation is one host's work"},
};

const Row* row_of(std::string_view key) {
  const Row* found = nullptr;
  for (const Row& row : reader_table()) {
    const bool fits = row.key.ends_with('.') ? key.starts_with(row.key) : key == row.key;
    if (fits && (found == nullptr || row.key.size() > found->key.size())) found = &row;
  }
  return found;
}

Problem refuse(const Field& field, Command command, const ResolvedSpec& resolved, const Origin& origin) {
  const auto other = field.capability ? command_of(*field.capability) : std::nullopt;
  if (other)
    return {origin.where, fmt::format("{}: {} is for {}", field.key, field.write(resolved.spec), other->command),
            fmt::format("use that, whose file is another ({}), or remove the key", other->page)};
  const auto hint = std::ranges::find_if(
      hints, [&](const Hint& row) { return row.command == command && row.key == field.key; });
  return {origin.where, fmt::format("{} is not read by {}", field.key, name(command)),
          hint != hints.end() ? std::string(hint->remedy)
                              : fmt::format("leave it out; it is read by {}", readers_in_words(field.key))};
}

// A plan is a question about a run, in the run's own words: those that do not affect memory are skipped.
bool passes_over(Command command, std::string_view key) {
  return (command == plan_training && reads(train, key)) || (command == plan_inference && reads(generate, key));
}

// Training by a model's own answers draws them as muster generate does.
bool draws_by(std::string_view key, const RunSpec& spec) {
  return key.starts_with("generation.") && key != "generation.samples" && key != "generation.sequence_length" &&
         (samples_answers(spec.training.algorithm) || !spec.environment.evaluations.list.empty());
}

// A section that is named after an algorithm is that one's alone. Not so `reward`, which says what sampled answers earn.
bool is_of_another_algorithm(std::string_view key, const RunSpec& spec) {
  const std::string_view section = key.substr(0, key.find('.'));
  if (section == "reward") return !samples_answers(spec.training.algorithm);
  return section != write(spec.training.algorithm) &&
         std::ranges::any_of(words(Algorithm{}), [&](const Word<Algorithm>& word) { return word.text == section; });
}

// Whole sections by their name, single keys otherwise; the first few of many.
std::string in_words(const Schema& schema, Command command, const std::vector<std::string>& keys) {
  constexpr std::size_t most = 6;
  std::vector<std::string> words;
  for (const std::string& key : keys) {
    const std::string section = key.substr(0, key.find('.'));
    const bool whole = std::ranges::none_of(schema.fields(), [&](const Field& field) {
      return field.key.starts_with(section + ".") && reads(command, field.key);
    });
    const std::string& word = whole ? section : key;
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  if (words.size() <= most + 1) return join(words, ", ");
  const std::size_t left_out = words.size() - most;
  words.resize(most);
  return fmt::format("{} and {} more", join(words, ", "), left_out);
}

}  // namespace

std::string_view name(Command command) {
  return std::ranges::find(command_names, command, &CommandName::command)->name;
}

std::vector<Command> readers_of(std::string_view key) {
  const Row* row = row_of(key);
  return row == nullptr ? std::vector<Command>{} : row->readers;
}

bool reads(Command command, std::string_view key) {
  const Row* row = row_of(key);
  return row != nullptr && std::ranges::find(row->readers, command) != row->readers.end();
}

std::string readers_in_words(std::string_view key) {
  std::vector<std::string> words;
  for (const Command command : readers_of(key)) words.emplace_back(name(command));
  return join(words, ", ");
}

std::vector<Problem> find_unread(const Schema& schema, Command command, ResolvedSpec& resolved) {
  std::vector<Problem> problems;
  std::vector<std::string> left, of_others;
  for (const auto& [key, origin] : resolved.origins) {
    const bool trains = command == train || command == plan_training;
    if (trains && is_of_another_algorithm(key, resolved.spec)) {
      if (const Field& field = *schema.find(key); field.write(resolved.spec) != field.fallback) of_others.push_back(key);
      continue;
    }
    if (reads(command, key) || (trains && draws_by(key, resolved.spec))) continue;
    const Field& field = *schema.find(key);
    const bool typed = origin.kind == Origin::Kind::command_line;
    if (typed && !passes_over(command, key))
      problems.push_back(refuse(field, command, resolved, origin));
    else if (typed || field.write(resolved.spec) != field.fallback)  // a run's spec.yaml names everything
      left.push_back(key);
  }
  if (!of_others.empty())
    resolved.notes.push_back(fmt::format("training.algorithm={} does not read {}", write(resolved.spec.training.algorithm),
                                         join(of_others, ", ")));
  if (!left.empty())
    resolved.notes.push_back(
        fmt::format("{} does not read {}: left to other commands", name(command), in_words(schema, command, left)));
  return problems;
}

}  // namespace muster::spec
