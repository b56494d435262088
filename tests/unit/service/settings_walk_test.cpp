// Every setting changes what a command that reads it is about to do, or is refused by name: none is ignored in silence.
// A new setting is found here by itself: it must change the plan, the task or the job of the commands that spec/readers
// names for it, or stand in `seen_later` beside the test that sees its effect.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "checkpoint/adapters/adapter_folder.hpp"
#include "experiment/experiment_file.hpp"
#include "experiment/job_folder.hpp"
#include "experiment/stage_command.hpp"
#include "job/builtin_model.hpp"
#include "job/evaluate/evaluate.hpp"
#include "job/generate/generate.hpp"
#include "job/train/train.hpp"
#include "planning/configuration.hpp"
#include "planning/plan_options.hpp"
#include "planning/plan_report.hpp"
#include "spec/alias.hpp"
#include "spec/model/model_source.hpp"
#include "spec/readers.hpp"
#include "system/files.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"
#include "wire/order.hpp"

namespace muster::service {
namespace {

using spec::Command;
using Words = std::vector<std::string>;

// What a setting is set to where a number, a word of its list, or true and false would not do, and what else must be
// said for it to mean anything. {folder} is the folder of the test, which has the files.
struct Sample {
  std::string key, value;
  Words beside = {};
};
const Words adapters{"model.use_lora=true"}, adapters_over_four_bits{"model.use_lora=true", "model.load_in_4bit=true"};
const Words rewards{"training.algorithm=grpo", "reward.functions=[exact]"};
const Words leave_one_out{"training.algorithm=rloo", "reward.functions=[exact]"};
const Words critic{"training.algorithm=ppo", "reward.functions=[exact]"};
const Words held_critic{"training.algorithm=ppo", "reward.functions=[exact]", "ppo.kl_coef=0.1"};
const Words adapted_critic{"training.algorithm=ppo", "reward.functions=[exact]", "ppo.kl_coef=0.1",
                           "ppo.adaptive_kl_target=6"};
const Words code_tests{"training.algorithm=grpo", "reward.functions=[code_tests]", "data.path={folder}/tested.jsonl"};
const Words reward_program{"training.algorithm=grpo", "reward.functions=[program]", "reward.program=true"};
const Words mathematics{"training.algorithm=grpo", "environment.type=math"};
const Words debates{"training.algorithm=grpo", "environment.type=debate"};
const Words programs{"training.algorithm=grpo", "environment.type=code", "data.path={folder}/tested.jsonl"};
const Words played{"data.path={folder}/played.jsonl"}, learnt_twice{"data.path={folder}/played.jsonl", "sft.mode=combined"};
const Words chosen{"data.path={folder}/played.jsonl", "sft.filter_low_reward=true"};
const Words acting{"training.algorithm=grpo", "environment.type=program", "environment.program={folder}/acts",
                   "data.path={folder}/tested.jsonl"};
const std::vector<Sample> samples{
    {"experiment.resume", "auto"},
    {"distributed.gpu_ids", "[1]"},
    {"distributed.ranks", "8"},
    {"distributed.node_rank", "1", {"distributed.num_nodes=2", "training.batch_size=48"}},
    {"distributed.num_nodes", "2", {"training.batch_size=48"}},
    {"distributed.master_addr", "127.0.0.2"},
    {"distributed.fsdp_sharding_strategy", "shard_grad_op", {"distributed.strategy=fsdp"}},
    {"distributed.fsdp_cpu_offload", "true", {"distributed.strategy=fsdp"}},
    {"distributed.fsdp_group_size",
     "2",
     {"distributed.strategy=fsdp", "distributed.fsdp_sharding_strategy=hybrid_shard"}},
    {"distributed.deepspeed_config", "zero.json"},
    {"model.path", "{folder}/other"},
    {"model.tokenizer", "{folder}/other"},
    {"model.init", "checkpoint"},
    {"model.device_map", "{\"\": cpu}"},
    {"model.max_memory", "{0: 20GiB}"},
    {"model.adapters", "['{folder}/adapter']"},
    {"model.load_in_8bit", "true", adapters},
    {"model.load_in_4bit", "true", adapters},
    {"model.bnb_4bit_quant_type", "fp4", adapters_over_four_bits},
    {"model.bnb_4bit_use_double_quant", "true", adapters_over_four_bits},
    {"model.bnb_4bit_compute_dtype", "float32", adapters_over_four_bits},
    {"model.llm_int8_skip_modules", "[down_proj]", adapters_over_four_bits},
    {"model.lora_r", "4", adapters},
    {"model.lora_alpha", "4", adapters},
    {"model.lora_dropout", "0", adapters},
    {"model.lora_target_modules", "[q_proj]", adapters},
    {"model.lora_exclude_modules", "[q_proj]", adapters},
    {"model.use_rslora", "true", adapters},
    {"model.use_dora", "true", adapters},
    {"model.modules_to_save", "[norm]", adapters},
    {"sft.mode", "world_model", played},
    {"sft.bc_weight", "0.75", learnt_twice},
    {"sft.world_model_weight", "0.75", learnt_twice},
    {"sft.filter_low_reward", "true", played},
    {"sft.min_reward_threshold", "1", chosen},
    {"sft.max_trajectories", "1", played},
    {"dpo.beta", "0.5", {"training.algorithm=dpo"}},
    {"dpo.reference_free", "true", {"training.algorithm=dpo"}},
    {"dpo.label_smoothing", "0.1", {"training.algorithm=dpo"}},
    {"dpo.loss_type", "[ipo]", {"training.algorithm=dpo"}},
    {"dpo.loss_weights", "[0.5]", {"training.algorithm=dpo"}},
    {"simpo.beta", "2", {"training.algorithm=simpo"}},
    {"simpo.gamma", "1", {"training.algorithm=simpo"}},
    {"orpo.beta", "0.5", {"training.algorithm=orpo"}},
    {"training.num_rollouts_per_iteration", "64", rewards},
    {"grpo.num_generations", "4", rewards},
    {"grpo.max_draws", "3", rewards},
    {"grpo.num_iterations", "2", rewards},
    {"grpo.loss_type", "grpo", rewards},
    {"grpo.importance_sampling_level", "sequence", rewards},
    {"grpo.epsilon", "0.3", rewards},
    {"grpo.epsilon_high", "0.3", rewards},
    {"grpo.beta", "0.5", rewards},
    {"rloo.beta", "0", leave_one_out},
    {"grpo.delta", "2", rewards},
    {"grpo.sapo_temperature_pos", "2", rewards},
    {"grpo.sapo_temperature_neg", "2", rewards},
    {"grpo.scale_rewards", "batch", rewards},
    {"grpo.normalize_rewards", "false", rewards},
    {"grpo.scale_epsilon", "0.5", rewards},
    {"grpo.mask_truncated_completions", "true", rewards},
    {"rloo.num_generations", "4", leave_one_out},
    {"rloo.num_iterations", "2", leave_one_out},
    {"rloo.epsilon", "0.3", leave_one_out},
    {"rloo.epsilon_high", "0.3", leave_one_out},
    {"rloo.mask_truncated_completions", "true", leave_one_out},
    {"ppo.num_generations", "4", critic},
    {"ppo.num_ppo_epochs", "2", critic},
    {"ppo.clip_range", "0.3", critic},
    {"ppo.clip_range_vf", "0.3", critic},
    {"ppo.gamma", "0.9", critic},
    {"ppo.gae_lambda", "0.9", critic},
    {"ppo.value_loss_coef", "0.3", critic},
    {"ppo.entropy_coef", "0.1", critic},
    {"ppo.target_kl", "0.1", critic},
    {"ppo.normalize_advantages", "false", critic},
    {"ppo.missing_eos_penalty", "1", critic},
    {"ppo.kl_coef", "0.1", critic},
    {"ppo.kl_estimator", "k3", held_critic},
    {"ppo.adaptive_kl_target", "6", held_critic},
    {"ppo.adaptive_kl_horizon", "100", adapted_critic},
    {"reward_model.center_rewards_coefficient", "0.01", {"training.algorithm=reward"}},
    {"kto.beta", "0.5", {"training.algorithm=kto"}},
    {"kto.desirable_weight", "0.5", {"training.algorithm=kto"}},
    {"kto.undesirable_weight", "0.5", {"training.algorithm=kto"}},
    {"reward.functions", "[digits]", rewards},
    {"reward.weights", "[0.5]", rewards},
    {"reward.unknown", "zero", rewards},
    {"reward.format", "b+", {"training.algorithm=grpo", "reward.functions=[format]", "reward.format=a+"}},
    {"reward.format_match", "search", {"training.algorithm=grpo", "reward.functions=[format]", "reward.format=a+"}},
    {"reward.length_margin", "7", {"training.algorithm=grpo", "reward.functions=[length]"}},
    {"reward.repetition_words", "2", {"training.algorithm=grpo", "reward.functions=[repetition]"}},
    {"reward.program", "cat", reward_program},
    {"reward.program_seconds", "2", reward_program},
    {"reward.program_restarts", "1", reward_program},
    {"reward.code_scoring", "all", code_tests},
    {"reward.code_seconds", "3", code_tests},
    {"reward.code_at_once", "2", code_tests},
    {"reward.code_python", "{folder}/python", code_tests},
    {"reward.scale", "2", rewards},
    {"reward.bias", "1", rewards},
    {"reward.clip", "1", rewards},
    {"environment.type", "debate", mathematics},
    {"environment.max_attempts", "2", programs},
    {"environment.rounds", "2", debates},
    {"environment.reward_steps", "true", mathematics},
    {"environment.max_result_tokens", "32", debates},
    {"environment.timeout", "2", programs},
    {"environment.python", "no-such-python", programs},
    {"environment.program", "exec {folder}/acts", acting},
    {"environment.program_seconds", "30", acting},
    {"environment.program_restarts", "1", acting},
    {"environment.at_once", "7", debates},
    {"training.max_episode_length", "2", debates},
    {"environment.evaluations", "[{type: math}]"},
    {"training.eval_episodes", "5", {"environment.evaluations=[{type: math}]"}},
    {"data_collection.reward_batch_size", "8", reward_program},
    {"training.num_epochs", "2"},
    {"training.off_by", "1", rewards},
    {"training.batch_size", "48"},
    {"training.fp16", "true", {"training.mixed_precision=no"}},
    {"training.bf16", "true", {"training.mixed_precision=no"}},
    {"training.decay_steps", "7", {"training.lr_scheduler=wsd"}},
    {"training.momentum", "0.5", {"training.optimizer=sgd_momentum"}},
    {"generation.stop", "[END]"},
    {"generation.stop_tokens", "[7]"},
    {"data.path", "{folder}/rows.jsonl"},
    {"data.eval_path", "{folder}/rows.jsonl"},
    {"data.operations", "['-']"},
    {"data.train_on", "last", {"data.path={folder}/rows.jsonl"}},
};

// Settings whose effect only a running job shows, and the test that sees it.
struct SeenLater {
  Command command;
  std::string key, file, test;
};
const std::string in_cli = "command/cli/test_configuration.py", shown = "test_what_only_a_run_shows";
const std::vector<SeenLater> seen_later{
    {Command::train, "experiment.name", in_cli, shown},
    {Command::train, "experiment.description", in_cli, shown},
    {Command::train, "experiment.tags", in_cli, shown},
    {Command::train, "experiment.output", in_cli, shown},
    {Command::train, "training.logging_steps", in_cli, shown},
    {Command::train, "environment.tool_role", "command/train/test_environments.py",
     "test_a_template_that_knows_no_tools_gets_their_results_as_the_users"},
    {Command::train, "distributed.zero_stage", "command/train/test_evaluated_environments.py",
     "test_the_whole_file_of_guide_0_runs_as_it_stands"},  // that it changes nothing
    {Command::train, "environment.server", "command/environments/test_asking.py",
     "test_training_with_a_server_has_the_bits_of_training_here"},
    {Command::train, "environment.token_file", "command/environments/test_asking.py",
     "test_collected_trajectories_are_those_of_the_environment_here"},
    {Command::train, "ppo.num_mini_batches", "command/train/test_ppo.py",
     "test_mistakes_are_told_before_anything_starts"},  // the batch size beside it says the same
    {Command::train, "ppo.critic", "command/train/test_own_critic.py", "test_the_plan_has_the_critic_s_states"},
    {Command::plan_training, "ppo.critic", "command/train/test_own_critic.py", "test_the_plan_has_the_critic_s_states"},
    {Command::train, "ppo.critic_learning_rate", "peer/policies/test_own_critic_against_verl.py",
     "test_two_updates_give_both_models_the_weights_of_verls_losses"},
    {Command::train, "reward.model", "command/train/test_reward_models.py",
     "test_the_plan_has_the_reward_model_s_bytes"},
    // It is what generation does anyway.
    {Command::generate, "model.auto_device_map", "command/split/test_placement.py",
     "test_a_model_that_fits_is_whole_on_every_rank"},
    // And what training does anyway.
    {Command::train, "model.auto_device_map", "command/cli/test_described_gpus.py",
     "test_a_map_that_says_what_training_does_anyway_is_accepted"},
    {Command::plan_training, "model.auto_device_map", "command/cli/test_described_gpus.py",
     "test_a_map_that_says_what_training_does_anyway_is_accepted"},
    // And evaluation.
    {Command::evaluate, "model.auto_device_map", "command/cli/test_described_gpus.py",
     "test_an_automatic_map_is_what_evaluation_does_anyway"},
    // A planner that follows transformers' rules, which an option chooses.
    {Command::plan_inference, "model.llm_int8_enable_fp32_cpu_offload", "command/cli/test_plan_scenarios.py",
     "test_a_packed_model_reaches_the_cpu_only_where_that_is_allowed"},
    {Command::train, "distributed.max_restarts", "command/restart/test_train_kills.py",
     "test_restarts_are_counted_and_then_the_run_fails"},
};

class SettingsWalk : public ::testing::Test {
 protected:
  SettingsWalk() {
    write("other", "builtin:llama-0.6m");
    write("model", "builtin:llama-0.2m");
    write_adapter();
    folder_.write("rows.jsonl", "{\"prompt\": \"1+1=\", \"completion\": \"2\"}\n");
    const std::string line = R"("observations": [{"messages": [{"role": "user", "content": "1+1="}]},
      {"messages": [{"role": "user", "content": "no"}]}], "actions": [{"role": "assistant", "content": "3"}], "rewards": )";
    const auto trajectory = [&](const char* reward) {
      std::string row = "{" + line + "[{\"value\": " + reward + "}]}";
      std::erase(row, '\n');
      return row + "\n";
    };
    folder_.write("played.jsonl", trajectory("-1") + trajectory("0.5") + trajectory("1"));
    folder_.write("tested.jsonl", "{\"prompt\": \"1+1=\", \"tests\": [\"assert f(1) == 2\"]}\n");
    std::filesystem::permissions(folder_.write("python", "#!/bin/sh\nexec python3 \"$@\"\n"),
                                 std::filesystem::perms::owner_all);
    std::filesystem::permissions(
        folder_.write("acts", "#!/bin/sh\nwhile read -r line; do case $line in *reset*) id=${line#*'\"id\":'}; id=${id%%,*}\n"
                              "echo '{\"id\": '$id', \"messages\": [{\"role\": \"user\", \"content\": \"?\"}]}';; esac; done\n"),
        std::filesystem::perms::owner_all);
    folder_.write("prompts.txt", "1+1=\n2+2=\n");
    folder_.write("gpus.yaml",
                  "gpus: [{count: 4, memory_total: 40GiB, memory_used: 0, compute_capability: \"9.0\"}]\n");
  }

  // A folder that a model of muster's own is in.
  void write(const std::string& name, const std::string& builtin) {
    const auto made = job::builtin_model_folder(folder_.path(), builtin);
    ASSERT_TRUE(made) << made.error().what;
    std::filesystem::copy(*made, folder_.path() / name, std::filesystem::copy_options::recursive);
  }

  void write_adapter() {
    const auto model = spec::read_model((folder_.path() / "model").string(), {}, std::nullopt);
    ASSERT_TRUE(model) << model.error().what;
    const auto zeros = [](const checkpoint::TensorDeclaration&, std::span<std::byte> out) -> Result<void> {
      std::ranges::fill(out, std::byte{0});
      return {};
    };
    const auto written = checkpoint::write_adapter({.folder = folder_.path() / "adapter", .config = {}}, model->shape, zeros);
    ASSERT_TRUE(written) << written.error().what;
  }

  host::Host host() {
    host::HostSources sources;
    sources.inventory_file = folder_.path() / "gpus.yaml";
    sources.lease_folder = folder_.path() / "leases";
    return host::Host(std::move(sources));
  }

  std::string in_folder(std::string text) const {
    const auto found = text.find("{folder}");
    return found == std::string::npos ? text : text.replace(found, 8, folder_.path().string());
  }

  // What each command needs to be asked anything at all; what is given beside overrules.
  planning::GivenConfiguration given(Command command, const Words& words) const {
    std::map<std::string, std::string> settings{{"model.path", "{folder}/model"}};
    const bool job = command == Command::train || command == Command::generate || command == Command::evaluate;
    if (job) settings["model.init"] = "random";
    if (command == Command::train || command == Command::evaluate) settings["data.path"] = "builtin:arithmetic";
    if (command == Command::train || command == Command::plan_training) settings["training.batch_size"] = "24";
    if (command == Command::generate) settings["generation.max_new_tokens"] = "8";
    if (command == Command::plan_inference) settings["generation.max_new_tokens"] = "64";
    for (const std::string& word : words) settings[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    planning::GivenConfiguration given;
    given.command = command;
    for (const auto& [key, value] : settings) given.settings.push_back(in_folder(key + "=" + value));
    return given;
  }

  static std::string job_text(const job::WorkerJob& job) {
    const auto hosts = job.hosts.value_or(job::JobHosts{});
    return fmt::format("{}\nranks {} backend {} gpus {}\nhosts {} {} {} {}\nstore {} {}\n",
                       wire::print(wire::Order{job.assignment}), job.ranks, static_cast<int>(job.backend),
                       job.selection ? join(texts_of(job.selection->ids), ",") : "none", hosts.count, hosts.number, hosts.address,
                       hosts.port, job.store.address.value_or(""), job.store.port.value_or(0));
  }

  template <class Plan>
  static std::string plan_words(const Plan& plan) {
    return planning::plan_json(plan.question, plan.plan, job::training_command) + join(plan.notes, "\n");
  }

  // Everything that a command is about to do, as text; or why it is not.
  Result<std::string> look(Command command, const spec::ResolvedSpec& resolved) {
    host::Host host = this->host();
    if (command == Command::train) {
      auto settled = job::settle_training_settings(resolved);
      if (!settled) return settled.error();
      const auto plan = job::plan_training(host, {std::move(*settled), host::Purpose::plan}, {});
      if (!plan) return plan.error();
      return plan_words(*plan) + job_text(plan->job);
    }
    if (command == Command::evaluate) {
      job::EvaluateRequest request;
      request.settings = resolved;
      request.purpose = host::Purpose::plan;
      const auto plan = job::plan_evaluation(host, request, {});
      if (!plan) return plan.error();
      return plan_words(*plan) + job_text(plan->job);
    }
    job::GenerateRequest request;
    request.settings = resolved;
    request.purpose = host::Purpose::plan;
    request.prompts = (folder_.path() / "prompts.txt").string();
    request.resume = resolved.origins.contains("experiment.resume");
    const auto plan = job::plan_generation(host, request);
    if (!plan) return plan.error();
    return plan_words(*plan) + job_text(plan->job);
  }

  Result<std::string> look_at_plan(Command command, const Words& words) {
    std::string text;
    for (const char* implementation : {"transformers", "muster"}) {
      planning::PlanOptions options;
      options.configuration = given(command, words);
      options.train = command == Command::plan_training;
      options.infer = !options.train;
      options.implementation = implementation;
      host::Host host = this->host();
      const auto answer = planning::answer_plan(host, options);
      if (!answer) return answer.error();
      text += planning::plan_json(answer->question, answer->plan, planning::PlanCommandLine({}, answer->question.workload.work)) + join(answer->notes, "\n");
    }
    return text;
  }

  // absent: these settings are not a configuration.
  std::optional<Result<std::string>> look(Command command, const Words& words) {
    const auto resolved = planning::resolve_configuration(schema_, given(command, words));
    if (!resolved) return std::nullopt;
    if (command == Command::plan_training || command == Command::plan_inference) return look_at_plan(command, words);
    return look(command, *resolved);
  }

  std::vector<Sample> samples_of(const spec::Field& field) const {
    for (const Sample& sample : samples)
      if (sample.key == field.key) return {sample};
    Words values{"true", "false", "1", "2", "3", "5", "0.5"};
    if (field.is_choice) values = split(field.accepted, ',');
    std::vector<Sample> found;
    for (const std::string& value : values) {
      Node node;
      node.kind = Node::Kind::scalar;
      node.text = trim(value);
      spec::RunSpec read;
      if (node.text != field.fallback && field.accepted != "text" && field.read(read, node))
        found.push_back({field.key, node.text, {}});
    }
    return found;
  }

  static Words read_by(Command command, Words words) {
    std::erase_if(words, [&](const std::string& word) { return !spec::reads(command, word.substr(0, word.find('='))); });
    return words;
  }

  // Whether some value of a setting that a command reads makes a difference to it.
  bool has_effect(Command command, const spec::Field& field) {
    for (const Sample& sample : samples_of(field)) {
      const Words beside = read_by(command, sample.beside);
      Words with = beside;
      with.push_back(fmt::format("{}={}", sample.key, sample.value));
      const auto before = look(command, beside), after = look(command, with);
      if (!before || !after) continue;
      if (!*after && names(to_string((*after).error()), field.key)) return true;
      if (*before && *after && **before != **after) return true;
      tried_ += fmt::format("\n{} {}: {}", field.key, sample.value,
                            *after ? std::string("as before") : (*after).error().what);
    }
    return false;
  }

  // By its key, or by the option that is short for it.
  static bool names(const std::string& text, const std::string& key) {
    return text.find(key) != std::string::npos ||
           std::ranges::any_of(spec::short_options(), [&](const spec::ShortOption& option) {
             return option.key == key && text.find(option.option) != std::string::npos;
           });
  }

  std::string tried_;  // to no effect
  testing::ScratchFolder folder_;
  testing::EnvironmentVariable cache_{"MUSTER_CACHE", folder_.path().string()};
  testing::EnvironmentVariable no_outer_lease_{"MUSTER_LEASE", std::nullopt};
  testing::EnvironmentVariable allocator_{"PYTORCH_CUDA_ALLOC_CONF", std::nullopt};
  spec::Schema schema_;
};

constexpr std::array commands{Command::train, Command::generate, Command::evaluate, Command::plan_training,
                              Command::plan_inference};

TEST_F(SettingsWalk, WhatACommandIsAskedWithoutMoreIsSomethingItCanDo) {
  for (const Command command : commands) {
    const auto seen = look(command, Words{});
    ASSERT_TRUE(seen) << name(command);
    EXPECT_TRUE(*seen) << name(command) << ": " << (*seen).error().what;
  }
}

TEST_F(SettingsWalk, TestsThatAreNamedAreThere) {
  for (const SeenLater& row : seen_later) {
    const auto text = read_file(std::filesystem::path(MUSTER_DOCS).parent_path() / "tests" / row.file);
    ASSERT_TRUE(text) << text.error().what;
    EXPECT_NE(text->find("def " + row.test + "("), std::string::npos) << row.test;
    EXPECT_NE(text->find(row.key.substr(row.key.find('.') + 1)), std::string::npos) << row.key;
  }
}

TEST_F(SettingsWalk, EverySettingChangesWhatItsCommandsDoOrIsRefusedByName) {
  for (const spec::Field& field : schema_.fields()) {
    EXPECT_FALSE(spec::readers_of(field.key).empty()) << field.key << " is read by no command: spec/readers.cpp";
    for (const Command command : commands) {
      if (!spec::reads(command, field.key)) continue;
      const bool later = std::ranges::any_of(
          seen_later, [&](const SeenLater& row) { return row.command == command && row.key == field.key; });
      tried_.clear();
      EXPECT_NE(has_effect(command, field), later)
          << field.key << (later ? " stands in seen_later, and is seen before " : " is read by ") << name(command)
          << (later ? " starts anything" : ", and changes nothing that it does:") << tried_;
    }
  }
}

TEST_F(SettingsWalk, ASettingThatACommandDoesNotReadIsRefusedWhereItIsTyped) {
  for (const spec::Field& field : schema_.fields())
    for (const Command command : commands) {
      if (spec::reads(command, field.key)) continue;
      const std::vector<Sample> values = samples_of(field);
      const std::string value = values.empty() ? "words" : in_folder(values.front().value);
      planning::GivenConfiguration typed;
      typed.command = command;
      typed.settings = {field.key + "=" + value};
      for (const std::string& beside : values.empty() ? Words{} : read_by(command, values.front().beside))
        typed.settings.push_back(beside);
      const auto resolved = planning::resolve_configuration(schema_, typed);
      // A plan takes the words of the run that it is asked about, and names those that do not matter to it.
      const bool is_plan = command == Command::plan_training || command == Command::plan_inference;
      ASSERT_FALSE(resolved && !is_plan) << field.key << " of " << name(command);
      const std::string text = resolved ? join(resolved->notes, "\n") : resolved.error().what;
      const std::string section = field.key.substr(0, field.key.find('.'));
      EXPECT_NE(text.find(resolved ? section : field.key), std::string::npos) << field.key << ": " << text;
    }
}

TEST_F(SettingsWalk, APlanTakesTheWordsOfItsRunAndNoOthers) {
  planning::GivenConfiguration words = given(Command::plan_training, {"training.learning_rate=0.5", "experiment.name=first"});
  const auto run = planning::resolve_configuration(schema_, words);
  ASSERT_TRUE(run) << run.error().what;
  EXPECT_EQ(run->notes, Words{"muster plan --train does not read experiment, training.learning_rate: left to other "
                              "commands"});
  words.settings.emplace_back("generation.top_k=3");
  const auto other = planning::resolve_configuration(schema_, words);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().what.find("generation.top_k is not read by muster plan --train"), std::string::npos);
}

TEST_F(SettingsWalk, WhatAFileHoldsForOtherCommandsIsNamedOnce) {
  planning::GivenConfiguration given;
  given.command = Command::generate;
  given.file = folder_
                   .write("run.yaml",
                          "training: {max_steps: 3, batch_size: 4}\ndata: {path: rows.jsonl}\n"
                          "distributed: {strategy: ddp, num_gpus: 2}\ngeneration: {top_k: 3}\n"
                          "sweep: {name: null}\n")
                   .string();
  const auto resolved = planning::resolve_configuration(schema_, given);
  ASSERT_TRUE(resolved) << resolved.error().what;
  EXPECT_EQ(resolved->notes,
            Words{"muster generate does not read data, distributed.strategy, training: left to other commands"});
}

// In muster run a setting reaches the words of a stage, changes the experiment, or is refused by name.
TEST_F(SettingsWalk, AnExperimentTakesEverySettingToAStageOrRefusesIt) {
  const std::string file =
      "experiment: {name: lab}\nalgorithms: {SFT: }\nfamilies: {a: builtin:llama-0.2m}\n"
      "datasets: {d: {data.path: builtin:arithmetic, prompts: prompts.txt}}\ngenerate: muster\n";
  const auto words_of = [&](const Words& settings) -> Result<std::string> {
    const auto spec = experiment::read_experiment(file, "lab.yaml", settings);
    if (!spec) return spec.error();
    const auto jobs = experiment::jobs_of(*spec, 0);
    if (!jobs) return jobs.error();
    std::string text = fmt::format("{} {} {}\n", jobs->size(), spec->output, spec->parallel);
    for (const experiment::StageKind kind : spec->wanted_stages()) {
      const experiment::JobFolder folder(spec->output, jobs->front().id);
      const auto stage = stage_command(*spec, jobs->front(), kind, folder, {"muster", "MODEL", false, 0});
      if (!stage) return stage.error();
      text += join(*stage, " ") + "\n";
    }
    return text;
  };
  // What the cells of the matrix say themselves.
  const Words own{"experiment.name", "model.path", "data.path"};
  for (const spec::Field& field : schema_.fields()) {
    if (std::ranges::find(own, field.key) != own.end()) continue;
    const std::vector<Sample> values = samples_of(field);
    const Sample sample = values.empty() ? Sample{field.key, "words", {}} : values.front();
    // What stands beside it may be refused by itself.
    const Words beside = words_of(sample.beside) ? sample.beside : Words{};
    Words with = beside;
    with.push_back(fmt::format("{}={}", field.key, in_folder(sample.value)));
    const auto before = words_of(beside), after = words_of(with);
    ASSERT_TRUE(before) << field.key << ": " << before.error().what;
    const std::string last = field.key.substr(field.key.rfind('.') + 1);
    EXPECT_TRUE(after ? *before != *after : after.error().what.find(last) != std::string::npos)
        << field.key << ": " << (after ? *after : after.error().what);
  }
}

}  // namespace
}  // namespace muster::service
