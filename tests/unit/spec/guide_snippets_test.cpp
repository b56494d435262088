// Every configuration block and key=value line of the five guides loads with the meaning its guide gives it, or is
// refused with the reason where the guide contradicts itself.
#include <gtest/gtest.h>

#include <algorithm>

#include "system/files.hpp"
#include "base/text.hpp"
#include "spec/resolve.hpp"

namespace muster::spec {
namespace {

const Schema& schema() {
  static const Schema instance;
  return instance;
}

std::vector<std::string> settings_of(const ResolvedSpec& resolved) {
  std::vector<std::string> lines;
  for (const auto& [key, origin] : resolved.origins)
    lines.push_back(key + "=" + schema().find(key)->write(resolved.spec));
  return lines;  // sorted by key: origins is a map
}

struct FileCase {
  std::string file;
  std::vector<std::string> settings;
  std::vector<std::string> notes;
};

void PrintTo(const FileCase& example, std::ostream* out) { *out << example.file; }

class GuideFile : public ::testing::TestWithParam<FileCase> {};

TEST_P(GuideFile, LoadsWithTheMeaningItsGuideGivesIt) {
  auto text = read_file(std::string(MUSTER_FIXTURES) + "/guides/" + GetParam().file);
  ASSERT_TRUE(text) << text.error().what;
  const auto resolved = resolve(schema(), {.file = ConfigurationFile{GetParam().file, *text}});
  ASSERT_TRUE(resolved) << resolved.error().what;
  EXPECT_EQ(settings_of(*resolved), GetParam().settings);
  EXPECT_EQ(resolved->notes, GetParam().notes);
}

INSTANTIATE_TEST_SUITE_P(
    All, GuideFile,
    ::testing::Values(
        FileCase{"guide0_quick_start.yaml",
                 {"distributed.gpu_ids=[0, 2]", "distributed.num_gpus=2", "distributed.strategy=ddp"},
                 {}},
        FileCase{"guide0_full.yaml",
                 {"distributed.enabled=true", "distributed.fsdp_cpu_offload=false",
                  "distributed.fsdp_sharding_strategy=full_shard", "distributed.gpu_ids=[0, 1, 2, 3]",
                  "distributed.num_gpus=4", "distributed.strategy=ddp", "experiment.name=my_experiment",
                  "model.device_map=auto", "model.dtype=bfloat16", "model.path=Qwen/Qwen2.5-7B"},
                 {"experiment_name is read as experiment.name", "model.model_name_or_path is read as model.path",
                  "model.torch_dtype is read as model.dtype"}},
        FileCase{"guide0_single_gpu.yaml",
                 {"distributed.enabled=false", "distributed.gpu_ids=[0]", "distributed.num_gpus=1"},
                 {}},
        FileCase{"guide0_ddp_four_gpus.yaml",
                 {"distributed.enabled=true", "distributed.gpu_ids=[0, 1, 2, 3]", "distributed.num_gpus=4",
                  "distributed.strategy=ddp"},
                 {}},
        FileCase{"guide0_fsdp_large_model.yaml",
                 {"distributed.enabled=true", "distributed.fsdp_cpu_offload=false",
                  "distributed.fsdp_sharding_strategy=full_shard", "distributed.num_gpus=8",
                  "distributed.strategy=fsdp", "model.dtype=bfloat16", "model.path=meta-llama/Llama-2-70b-hf"},
                 {"model.model_name_or_path is read as model.path", "model.torch_dtype is read as model.dtype"}},
        FileCase{"guide0_always_explicit.yaml",
                 {"distributed.gpu_ids=[0, 1, 2, 3]", "distributed.num_gpus=4", "distributed.strategy=ddp"},
                 {}},
        FileCase{"guide0_master_port.yaml", {"distributed.master_port=29501"}, {}},
        FileCase{"guide0_grpo.yaml",
                 {"distributed.enabled=false", "experiment.name=sums", "experiment.output=outputs/sums", "experiment.seed=7",
                  "generation.max_new_tokens=512", "generation.temperature=0.7", "generation.top_p=0.9", "grpo.epsilon=0.2",
                  "grpo.num_generations=4", "grpo.num_iterations=4", "grpo.scale_rewards=running", "model.device_map=auto",
                  "model.path=Qwen/Qwen2.5-1.5B-Instruct", "training.algorithm=grpo", "training.batch_size=8",
                  "training.bf16=true", "training.eval_every=5", "training.learning_rate=1e-05",
                  "training.logging_steps=10", "training.lr_scheduler=constant", "training.max_grad_norm=0.5",
                  "training.num_iterations=50", "training.num_rollouts_per_iteration=32", "training.save_every=10"},
                 {"experiment_name is read as experiment.name",
                  "training.episodes_per_iteration is read as training.num_rollouts_per_iteration",
                  "training.log_every is read as training.logging_steps", "training.seed is read as experiment.seed",
                  "training.use_bf16 is read as training.bf16",
                  "training.use_tensorboard changes nothing: every run writes TensorBoard's files",
                  "grpo.clip_range is read as grpo.epsilon",
                  "grpo.gamma changes nothing: an answer earns once, at its end, so that nothing is discounted",
                  "grpo.gae_lambda changes nothing: answers are compared with each other, and no value is estimated",
                  "grpo.num_grpo_epochs is read as grpo.num_iterations",
                  "grpo.value_loss_coef changes nothing: answers are compared with each other, and no value is learnt",
                  "grpo.value_clip_range changes nothing: answers are compared with each other, and no value is learnt",
                  "grpo.entropy_coef changes nothing: grpo rewards no entropy here",
                  "grpo.group_size is read as grpo.num_generations",
                  "grpo.target_kl changes nothing: grpo ends no round early: grpo.epsilon holds each token, and grpo.beta the "
                  "whole",
                  "grpo.reward_normalization is read as grpo.scale_rewards",
                  "model.model_name_or_path is read as model.path",
                  "model.use_flash_attention changes nothing: which kernels attend follows from the device; "
                  "system.attn_impl=eager is the plain way",
                  "model.generation.max_new_tokens is read as generation.max_new_tokens",
                  "model.generation.temperature is read as generation.temperature",
                  "model.generation.do_sample changes nothing: answers are drawn; generation.temperature=0 takes the likeliest "
                  "tokens",
                  "model.generation.top_p is read as generation.top_p", "output.save_dir is read as experiment.output"}},
        FileCase{"guide0_dpo.yaml",
                 {"data.path=data/preferences.jsonl", "dpo.beta=0.1", "dpo.label_smoothing=0", "dpo.loss_type=[sigmoid]",
                  "dpo.reference_free=false", "experiment.name=preferences", "experiment.output=outputs/preferences",
                  "model.path=gpt2", "training.algorithm=dpo", "training.batch_size=4", "training.eval_every=5",
                  "training.learning_rate=5e-06", "training.logging_steps=10", "training.num_epochs=20",
                  "training.save_every=10"},
                 {"experiment_name is read as experiment.name", "model.model_name_or_path is read as model.path",
                  "model.model_type changes nothing: every model is a decoder", "model.num_beams changes nothing: there is no beam search",
                  "dataset.type changes nothing: data is a file or a folder of JSON lines", "dataset.path is read as data.path",
                  "output.save_dir is read as experiment.output", "output.log_interval is read as training.logging_steps",
                  "output.eval_interval is read as training.eval_every", "output.save_interval is read as training.save_every"}},
        FileCase{"guide0_sft.yaml",
                 {"sft.bc_weight=0.5", "sft.filter_low_reward=true", "sft.max_trajectories=1000", "sft.min_reward_threshold=0.5",
                  "sft.mode=combined", "sft.world_model_weight=0.5", "training.algorithm=sft", "training.num_epochs=50"},
                 {"sft.collect_every changes nothing: nothing is collected while sft trains: muster collect plays episodes, and "
                  "data.path names its files"}},
        FileCase{"guide0_summary.yaml", {"distributed.gpu_ids=[0, 1, 2, 3]", "distributed.num_gpus=4"}, {}},
        FileCase{"guide2_key_settings.yaml",
                 {"algos.PITA.batch_size=24", "algos.PITA.enabled=true", "algos.PITA.num_workers=4",
                  "data_collection.reward_batch_size=32", "system.attn_impl=eager", "system.clear_cache_interval=10",
                  "system.use_parallel_execution=true", "training.gradient_checkpointing=full",
                  "training.micro_batch_size=4"},
                 {}},
        FileCase{"guide2_for_40gb.yaml",
                 {"algos.PITA.batch_size=16", "algos.PITA.enabled=true", "training.gradient_checkpointing=full",
                  "training.micro_batch_size=2"},
                 {}},
        FileCase{"guide2_for_80gb.yaml",
                 {"algos.PITA.batch_size=32", "algos.PITA.enabled=true", "training.gradient_checkpointing=none",
                  "training.micro_batch_size=4"},
                 {}},
        FileCase{"guide2_smaller_batch.yaml", {"algos.PITA.batch_size=12", "algos.PITA.enabled=true"}, {}},
        FileCase{"guide2_checkpointing_on.yaml", {"training.gradient_checkpointing=full"}, {}},
        FileCase{"guide2_smaller_micro_batch.yaml", {"training.micro_batch_size=2"}, {}},
        FileCase{"guide2_eager_attention.yaml", {"system.attn_impl=eager"}, {}},
        // The guide calls this batch size one for reward scoring here and one for training elsewhere: it is the
        // training one.
        FileCase{"guide2_batch_sizes.yaml",
                 {"algos.PITA.batch_size=32", "algos.PITA.enabled=true", "generation.batch_size=8",
                  "training.gradient_checkpointing=full", "training.micro_batch_size=4"},
                 {}}),
    [](const auto& test) { return test.param.file.substr(0, test.param.file.size() - 5); });

struct LineCase {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<std::string> settings;  // empty: refused
  std::string reason;
};

void PrintTo(const LineCase& example, std::ostream* out) { *out << example.name; }

class GuideLine : public ::testing::TestWithParam<LineCase> {};

TEST_P(GuideLine, LoadsOrIsRefusedWithTheReason) {
  Sources sources;
  for (const std::string& argument : GetParam().arguments)
    sources.overrides.push_back(parse_override(argument).value());
  const auto resolved = resolve(schema(), sources);
  if (GetParam().settings.empty()) {
    ASSERT_FALSE(resolved);
    EXPECT_NE(resolved.error().what.find(GetParam().reason), std::string::npos) << resolved.error().what;
    return;
  }
  ASSERT_TRUE(resolved) << resolved.error().what;
  EXPECT_EQ(settings_of(*resolved), GetParam().settings);
}

INSTANTIATE_TEST_SUITE_P(
    All, GuideLine,
    ::testing::Values(
        LineCase{"guide0_fewer_gpus", {"distributed.num_gpus=2"}, {"distributed.num_gpus=2"}, ""},
        LineCase{"guide0_offload", {"fsdp_cpu_offload=true"}, {"distributed.fsdp_cpu_offload=true"}, ""},
        LineCase{"guide0_dtype", {"torch_dtype=bfloat16"}, {"model.dtype=bfloat16"}, ""},
        LineCase{"guide0_beams", {"model.num_beams=4"}, {}, "model.num_beams is"},
        LineCase{"guide0_code_of_a_model", {"model.trust_remote_code=true"}, {}, "code that comes with a model is never run"},
        LineCase{"guide0_data_set_by_name", {"dataset.name=gsm8k"}, {}, "data sets are not fetched"},
        LineCase{"guide2_experiment", {"experiment.name=my_experiment"}, {"experiment.name=my_experiment"}, ""},
        LineCase{"guide2_test_run", {"experiment.name=gpu_test_run"}, {"experiment.name=gpu_test_run"}, ""},
        LineCase{"guide2_parallel_execution_at_the_top",
                 {"use_parallel_execution=true"},
                 {"system.use_parallel_execution=true"},
                 ""},
        LineCase{"guide2_more_samples_for_more_jobs", {"num_samples=64"}, {}, "more samples do not make more jobs"},
        LineCase{"guide3_trainer_arguments",
                 {"per_device_train_batch_size=2", "gradient_accumulation_steps=4", "warmup_steps=5", "max_steps=100",
                  "learning_rate=2e-4", "logging_steps=1", "output_dir=\"./outputs\""},
                 {"experiment.output=./outputs", "training.gradient_accumulation_steps=4",
                  "training.learning_rate=0.0002", "training.logging_steps=1", "training.max_steps=100",
                  "training.micro_batch_size=2", "training.warmup_steps=5"},
                 ""},
        LineCase{
            "guide3_model_arguments",
            {"model_name=\"unsloth/llama-2-7b-chat-bnb-4bit\"", "max_seq_length=2048", "dtype=None",
             "load_in_4bit=True", "use_multi_gpu=True", "auto_device_map=True"},
            {"distributed.enabled=true", "model.auto_device_map=true", "model.dtype=auto", "model.load_in_4bit=true",
             "model.path=unsloth/llama-2-7b-chat-bnb-4bit", "training.sequence_length=2048"},
            ""},
        LineCase{"guide3_multi_gpu_config",
                 {"backend=\"nccl\"", "timeout_minutes=30", "auto_device_map=True", "tensor_parallel=False",
                  "pipeline_parallel=False", "use_gradient_checkpointing=True", "find_unused_parameters=False"},
                 {"distributed.backend=nccl", "distributed.find_unused_parameters=false",
                  "distributed.pipeline_parallel=1", "distributed.tensor_parallel=1", "distributed.timeout_minutes=30",
                  "model.auto_device_map=true", "training.gradient_checkpointing=full"},
                 ""},
        LineCase{"guide3_limits",
                 {"device_map=\"balanced\"", "max_memory={0: \"10GB\", 1: \"10GB\", 2: \"8GB\", 3: \"8GB\"}",
                  "use_multi_gpu=True"},
                 {"distributed.enabled=true", "model.device_map=balanced",
                  "model.max_memory={0: 10000000000, 1: 10000000000, 2: 8000000000, 3: 8000000000}"},
                 ""},
        LineCase{"guide3_split_and_data_parallel",
                 {"device_map=balanced", "distributed.strategy=ddp", "num_gpus=4"},
                 {},
                 "splits one model over the GPUs"},
        LineCase{"guide3_sequential", {"device_map=\"sequential\""}, {"model.device_map=sequential"}, ""},
        LineCase{"guide3_auto", {"device_map=\"auto\""}, {"model.device_map=auto"}, ""},
        LineCase{
            "guide3_loader",
            {"per_device_train_batch_size=4", "dataloader_num_workers=4", "dataloader_pin_memory=True"},
            {"training.dataloader_num_workers=4", "training.dataloader_pin_memory=true", "training.micro_batch_size=4"},
            ""},
        LineCase{"guide3_memory",
                 {"per_device_train_batch_size=1", "gradient_accumulation_steps=8", "gradient_checkpointing=True",
                  "load_in_4bit=True"},
                 {"model.load_in_4bit=true", "training.gradient_accumulation_steps=8",
                  "training.gradient_checkpointing=full", "training.micro_batch_size=1"},
                 ""},
        LineCase{
            "guide3_mixed_precision", {"fp16=False", "bf16=True"}, {"training.bf16=true", "training.fp16=false"}, ""},
        LineCase{"guide3_gloo", {"backend=gloo"}, {"distributed.backend=gloo"}, ""},
        LineCase{"guide3_mpi", {"backend=mpi"}, {"distributed.backend=mpi"}, ""},
        LineCase{"guide4_first_four",
                 {"run=my_sweep", "gpu_list=0,1,2,3"},
                 {"distributed.gpu_ids=[0, 1, 2, 3]", "sweep.name=my_sweep"},
                 ""},
        LineCase{"guide4_last_four",
                 {"run=my_sweep", "gpu_list=4,5,6,7"},
                 {"distributed.gpu_ids=[4, 5, 6, 7]", "sweep.name=my_sweep"},
                 ""},
        LineCase{"guide4_run1",
                 {"run=my_sweep.run1", "gpu_list=0,1"},
                 {"distributed.gpu_ids=[0, 1]", "sweep.name=my_sweep.run1"},
                 ""},
        LineCase{"guide4_timesteps", {"trainer.total_timesteps=1000000"}, {"training.total_timesteps=1000000"}, ""}),
    [](const auto& test) { return test.param.name; });

// It runs, by each of its four algorithms, in tests/command/train/test_evaluated_environments.py.
TEST(GuideWholeFile, IsReadFromTheFirstKeyToTheLast) {
  const auto text = read_file(std::string(MUSTER_FIXTURES) + "/guides/guide0_whole_file.yaml");
  ASSERT_TRUE(text) << text.error().what;
  const auto resolved = resolve(schema(), {.file = ConfigurationFile{"whole.yaml", *text}});
  ASSERT_TRUE(resolved) << resolved.error().what;
  EXPECT_TRUE(missing_capabilities(schema(), *resolved).empty());
  const RunSpec& spec = resolved->spec;
  ASSERT_EQ(spec.environment.evaluations.list.size(), 2u);
  const EvaluationEnvironment& first = spec.environment.evaluations.list[0];
  EXPECT_EQ(first.data, "questions.jsonl");
  EXPECT_EQ(spec.evaluation_environment(first).turns, 128);
  EXPECT_EQ(spec.environment.evaluations.passed_over, std::vector<std::string>{"difficulty_range"});
  EXPECT_EQ(spec.environment.type, std::nullopt);
  EXPECT_EQ(spec.training.eval_episodes, 4);
  EXPECT_EQ(spec.experiment.tags, (std::vector<std::string>{"everything", "guide0"}));
  EXPECT_EQ(spec.generation.temperature, 1);
  EXPECT_EQ(spec.sft.trajectories(), (TrajectoryChoice{0.5, 1000}));
  EXPECT_EQ(spec.sft.combined(), (CombinedOptions{0.5, 0.5}));
}

TEST(GuideWholeFile, NamesAValueTwiceOnlyWhereBothAreTheSame) {
  const auto said = [](const char* lines) { return resolve(schema(), {.file = ConfigurationFile{"a.yaml", lines}}); };
  EXPECT_TRUE(said("grpo: {temperature: 0.9}\nmodel: {temperature: 0.9}\n"));
  const auto refused = said("grpo: {temperature: 0.9}\nmodel: {temperature: 0.7}\n");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("is set a second time"), std::string::npos) << refused.error().what;
}

TEST(GuideEnvironment, ReadsGpuListAsTheGpusOfTheRun) {
  const auto resolved = resolve(schema(), {.environment = {{"GPU_LIST", "4,5"}}});
  ASSERT_TRUE(resolved) << resolved.error().what;
  EXPECT_EQ(resolved->spec.distributed.gpu_ids, (std::vector<std::string>{"4", "5"}));
  EXPECT_EQ(resolved->origins.at("distributed.gpu_ids").where, "GPU_LIST");
  EXPECT_EQ(resolved->notes, std::vector<std::string>{"GPU_LIST is read as distributed.gpu_ids"});
}

TEST(GuideCommandLine, OverridesTheFilesGpusAsTheGuideShows) {
  const ConfigurationFile file{"config.yaml", "distributed:\n  num_gpus: 2\n  gpu_ids: [0, 2]\n  strategy: ddp\n"};
  const auto three = resolve(schema(), {.file = file, .overrides = {{"distributed.gpu_ids", "0,2,3", "--gpu-ids"}}});
  ASSERT_TRUE(three) << three.error().what;
  EXPECT_EQ(three->spec.distributed.gpu_ids.size(), 3U);
  EXPECT_FALSE(three->spec.distributed.num_gpus);
  EXPECT_EQ(three->notes, std::vector<std::string>{
                              "distributed.gpu_ids (--gpu-ids) overrules distributed.num_gpus (config.yaml:2:3)"});

  const auto cpu = resolve(schema(), {.file = file, .overrides = {{"distributed.device", "cpu", "--device"}}});
  ASSERT_TRUE(cpu) << cpu.error().what;
  EXPECT_FALSE(cpu->spec.distributed.num_gpus);
  EXPECT_TRUE(cpu->spec.distributed.gpu_ids.empty());
}

}  // namespace
}  // namespace muster::spec
