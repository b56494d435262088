#include "spec/resolve.hpp"

#include <gtest/gtest.h>

#include <set>

#include "system/files.hpp"
#include "spec/alias.hpp"

namespace muster::spec {
namespace {

const Schema& schema() {
  static const Schema instance;
  return instance;
}

Result<ResolvedSpec> from_file(std::string text) {
  return resolve(schema(), {.file = ConfigurationFile{"run.yaml", std::move(text)}});
}

std::string problems_of(const Result<ResolvedSpec>& resolved) {
  EXPECT_FALSE(resolved) << "it was accepted";
  return resolved ? "" : resolved.error().what;
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Configuration, RisesFromFileOverEnvironmentToCommandLine) {
  const Sources sources{
      .file = ConfigurationFile{"run.yaml", "training:\n  max_steps: 1\n  batch_size: 1\n  warmup_steps: 1\n"},
      .environment = {{"PATH", "/bin"}, {"MUSTER_TRAINING_BATCH_SIZE", "2"}, {"MUSTER_TRAINING_WARMUP_STEPS", "2"}},
      .overrides = {{"training.warmup_steps", "3", "training.warmup_steps=3"}}};
  const auto resolved = resolve(schema(), sources);
  ASSERT_TRUE(resolved) << resolved.error().what;
  EXPECT_EQ(resolved->spec.training.max_steps, 1);
  EXPECT_EQ(resolved->spec.training.batch_size, 2);
  EXPECT_EQ(resolved->spec.training.warmup_steps, 3);
  EXPECT_EQ(resolved->spec.training.logging_steps, 1) << "built in";
  const std::string printed = print_configuration(schema(), *resolved);
  EXPECT_SAYS(printed, "max_steps: 1                                # run.yaml:2:3");
  EXPECT_SAYS(printed, "# MUSTER_TRAINING_BATCH_SIZE");
  EXPECT_SAYS(printed, "# training.warmup_steps=3");
  EXPECT_SAYS(printed, "logging_steps: 1                            # built-in");
}

TEST(Configuration, ReportsAllProblemsAtOnceWithTheirPlaces) {
  const std::string text = problems_of(from_file(
      "distributed:\n  num_gpu: 2\n  strategy: dpp\ntraining:\n  max_steps: many\n  learning_rate: 0\nbogus: 1\n"));
  EXPECT_SAYS(text, "run.yaml:2:3: distributed.num_gpu: no such setting; did you mean distributed.num_gpus?");
  EXPECT_SAYS(
      text,
      "run.yaml:3:3: distributed.strategy is \"dpp\"; accepted: auto, single, ddp, fsdp, tensor, pipeline, deepspeed");
  EXPECT_SAYS(text, "run.yaml:5:3: training.max_steps is \"many\"; accepted: a whole number");
  EXPECT_SAYS(text, "run.yaml:6:3: training.learning_rate is 0; accepted: above 0");
  EXPECT_SAYS(text, "run.yaml:7:1: bogus: no such setting");
}

TEST(Configuration, TellsWhereAMisplacedKeyBelongs) {
  EXPECT_SAYS(problems_of(from_file("model:\n  learning_rate: 1e-4\n")),
              "model.learning_rate: no such setting; write it as training.learning_rate");
  EXPECT_SAYS(problems_of(from_file("weight_decay: 0.1\n")), "write it as training.weight_decay");
}

TEST(Configuration, RefusesASectionWithoutKeysAndAFileThatIsNoTable) {
  EXPECT_SAYS(problems_of(from_file("training: 5\n")), "training is a section, not a setting");
  EXPECT_SAYS(problems_of(from_file("- a\n- b\n")), "the file is a list");
  EXPECT_SAYS(problems_of(from_file("training: {max_steps: 1\n")), "not valid YAML");
  EXPECT_TRUE(from_file(""));
  EXPECT_TRUE(from_file("training:\n"));
}

TEST(Configuration, RefusesAKeyThatIsSetTwiceUnderTwoNames) {
  EXPECT_SAYS(problems_of(from_file("model:\n  path: a\n  model_name_or_path: b\n")),
              "model.path is set a second time (first by run.yaml:2:3)");
  const auto twice =
      resolve(schema(), {.overrides = {{"distributed.num_gpus", "2", "--num-gpus"}, {"num_gpus", "4", "num_gpus=4"}}});
  EXPECT_SAYS(problems_of(twice), "distributed.num_gpus is set a second time (first by --num-gpus)");
}

TEST(Configuration, RefusesUnknownVariablesOfItsOwnName) {
  const auto resolved = resolve(
      schema(), {.environment = {{"MUSTER_TRAINING_MAX_STEP", "2"}, {"MUSTER_GPUS", "f.yaml"}, {"OTHER", "x"}}});
  EXPECT_SAYS(problems_of(resolved),
              "MUSTER_TRAINING_MAX_STEP: no such setting; did you mean MUSTER_TRAINING_MAX_STEPS?");
}

TEST(Configuration, TakesBareCommasAsLists) {
  for (const char* value : {"0,2,3", "[0, 2, 3]", "[\"0\",2,'3']"}) {
    const auto resolved = resolve(schema(), {.overrides = {{"distributed.gpu_ids", value, "--gpu-ids"}}});
    ASSERT_TRUE(resolved) << resolved.error().what;
    EXPECT_EQ(resolved->spec.distributed.gpu_ids, (std::vector<std::string>{"0", "2", "3"})) << value;
  }
  EXPECT_SAYS(problems_of(resolve(schema(), {.overrides = {{"gpu_list", "0,,1", "gpu_list=0,,1"}}})),
              "with an empty entry");
}

TEST(Configuration, TakesTextsThatEndAnswersToTheLetter) {
  const auto resolved =
      from_file("generation:\n  stop: [\"\\n\\n\", \"a, b\", null_and_void]\n  stop_tokens: [2, 7]\n");
  ASSERT_TRUE(resolved) << resolved.error().what;
  EXPECT_EQ(resolved->spec.generation.stop.texts, (std::vector<std::string>{"\n\n", "a, b", "null_and_void"}));
  EXPECT_EQ(resolved->spec.generation.stop_tokens, (std::vector<std::int64_t>{2, 7}));
  const auto again = from_file(print_configuration(schema(), *resolved));
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(again->spec.generation.stop, resolved->spec.generation.stop);
  const auto one = from_file("generation:\n  stop: 'x, y'\n  stop_tokens: 5,6\n");
  ASSERT_TRUE(one) << one.error().what;
  EXPECT_EQ(one->spec.generation.stop.texts, std::vector<std::string>{"x, y"});
  EXPECT_EQ(one->spec.generation.stop_tokens, (std::vector<std::int64_t>{5, 6}));
  EXPECT_SAYS(problems_of(from_file("generation:\n  stop: ['']\n")), "generation.stop holds an entry that is \"\"");
  EXPECT_SAYS(problems_of(from_file("generation:\n  stop_tokens: [1, -2]\n")), "generation.stop_tokens holds \"-2\"");
  EXPECT_SAYS(problems_of(from_file("generation:\n  stop: {a: b}\n")), "accepted: a list of texts");
}

TEST(Configuration, TellsSizesInBinaryAndDecimalApart) {
  const auto resolved = from_file("model:\n  max_memory: {0: 10GB, 1: 10GiB, cpu: 512MiB}\n");
  ASSERT_TRUE(resolved) << resolved.error().what;
  EXPECT_EQ(resolved->spec.model.max_memory,
            (DeviceLimits{{"0", {10'000'000'000}}, {"1", gibibytes(10)}, {"cpu", mebibytes(512)}}));
  EXPECT_SAYS(problems_of(from_file("model:\n  max_memory: {0: 10Gb}\n")), "a lower-case b means bits");
  EXPECT_SAYS(problems_of(from_file("model:\n  max_memory: {tpu: 10GB}\n")), "names the device \"tpu\"");
}

TEST(Configuration, RefusesNumbersBeyondTheirBounds) {
  EXPECT_SAYS(problems_of(from_file("distributed:\n  num_gpus: 0\n")),
              "distributed.num_gpus is 0; accepted: at least 1");
  EXPECT_SAYS(problems_of(from_file("distributed:\n  master_port: 70000\n")), "at most 65535");
  EXPECT_SAYS(problems_of(from_file("training:\n  max_steps: 1.5\n")), "is \"1.5\"");
  EXPECT_SAYS(problems_of(from_file("training:\n  learning_rate: inf\n")), "is \"inf\"");
  EXPECT_SAYS(problems_of(from_file("training:\n  max_steps: 99999999999999999999\n")), "a whole number");
  EXPECT_SAYS(problems_of(from_file("training:\n  bf16: \"true\"\n")), "true or false") << "quotes make it a text";
}

TEST(Configuration, FindsContradictions) {
  EXPECT_SAYS(problems_of(from_file("distributed: {num_gpus: 4, gpu_ids: [0, 1]}\n")),
              "num_gpus is 4, but distributed.gpu_ids names 2");
  EXPECT_SAYS(problems_of(from_file("distributed: {gpu_ids: [1, 1]}\n")), "names GPU 1 twice");
  EXPECT_SAYS(problems_of(from_file("distributed: {enabled: false, num_gpus: 4}\n")),
              "is false, but 4 GPUs are asked for");
  EXPECT_SAYS(problems_of(from_file("distributed: {device: cpu, num_gpus: 2}\n")), "is cpu, but GPUs are asked for");
  EXPECT_SAYS(problems_of(from_file("distributed: {strategy: ddp, fsdp_cpu_offload: true}\n")),
              "but the strategy is ddp");
  EXPECT_SAYS(problems_of(from_file("distributed: {num_nodes: 2, node_rank: 2}\n")), "there are 2 hosts");
  EXPECT_SAYS(problems_of(from_file("training: {fp16: true, bf16: true}\n")), "and so is training.bf16");
  EXPECT_SAYS(problems_of(from_file("model: {load_in_4bit: true, load_in_8bit: true}\n")),
              "and so is model.load_in_8bit");
  EXPECT_SAYS(problems_of(from_file("experiment: {name: \"???\"}\n")), "give the run a name");
  EXPECT_SAYS(problems_of(from_file("training: {batch_size: 32, micro_batch_size: 2, gradient_accumulation_steps: "
                                    "4}\ndistributed: {num_gpus: 2}\n")),
              "is 32, but micro_batch_size 2 × gradient_accumulation_steps 4 × 2 ranks is 16");
  EXPECT_TRUE(from_file(
      "training: {batch_size: 32, micro_batch_size: 2, gradient_accumulation_steps: 4}\ndistributed: {num_gpus: 4}\n"));
}

TEST(Configuration, RefusesLaterCapabilitiesByNameAndNeverIgnoresThem) {
  const auto resolved = from_file(
      "distributed: {tensor_parallel: 2, deepspeed_config: a.json, backend: mpi}\n"
      "training: {algorithm: pita}\n");
  ASSERT_TRUE(resolved) << resolved.error().what;
  std::set<std::string> named;
  for (const Problem& problem : missing_capabilities(schema(), *resolved))
    named.insert(problem.what.substr(0, problem.what.find(':')));
  EXPECT_EQ(named, (std::set<std::string>{"distributed.tensor_parallel", "distributed.deepspeed_config",
                                          "distributed.backend", "training.algorithm"}));

  const auto off = from_file(
      "distributed: {tensor_parallel: false, backend: nccl}\ntraining: {algorithm: "
      "sft}\n");
  ASSERT_TRUE(off);
  EXPECT_TRUE(missing_capabilities(schema(), *off).empty()) << "switched off, they need nothing";
  EXPECT_SAYS(problems_of(from_file("model: {load_in_4bit: maybe}\n")), "true or false")
      << "checked for type all the same";
  EXPECT_SAYS(problems_of(from_file("distributed: {tensor_parallel: true}\n")), "does not say over how many GPUs");
}

TEST(Configuration, NamesTheCommandThatAKeyIsFor) {
  const auto resolved = from_file("experiment: {rounds_of_training: 2}\nsweep: {name: s}\n");
  ASSERT_TRUE(resolved) << resolved.error().what;
  const auto problems = missing_capabilities(schema(), *resolved);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].what, "experiment.rounds_of_training: 2 is for muster run");
  EXPECT_EQ(problems[1].what, "sweep.name: s is for muster sweep");
}

TEST(Configuration, PrintsWhatLoadsBackToTheSame) {
  const auto first = from_file(
      "experiment: {name: \"a: b # c\", tags: [x, \"y, z\", \"null\"], seed: 7}\n"
      "distributed: {gpu_ids: [0, GPU-abc], strategy: auto, fsdp_cpu_offload: true, enabled: true}\n"
      "model: {device_map: {model.embed_tokens: 0, lm_head: cpu}, max_memory: {0: 1.5GiB}, path: ./m}\n"
      "training: {learning_rate: 3.0e-5}\nalgos: {PITA: {batch_size: 3}}\n");
  ASSERT_TRUE(first) << first.error().what;
  const auto second = from_file(print_configuration(schema(), *first));
  ASSERT_TRUE(second) << second.error().what;
  for (const Field& field : schema().fields())
    EXPECT_EQ(field.write(first->spec), field.write(second->spec)) << field.key;
}

TEST(Configuration, ParsesOverrides) {
  EXPECT_EQ(parse_override("a.b=c=d")->value, "c=d");
  EXPECT_FALSE(parse_override("novalue"));
  EXPECT_FALSE(parse_override("=x"));
  EXPECT_FALSE(parse_override("--flag=x"));
}

TEST(Schema, NamesEveryKeyOnceAndExplainsIt) {
  std::set<std::string> keys, variables;
  for (const Field& field : schema().fields()) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_TRUE(variables.insert(environment_name(field.key)).second)
        << "two keys share " << environment_name(field.key);
    EXPECT_FALSE(field.help.empty()) << field.key;
    EXPECT_FALSE(field.accepted.empty()) << field.key;
  }
}

TEST(Schema, HasNoAliasThatHidesAKeyOrLeadsNowhere) {
  std::set<std::string_view> spellings;
  for (const Alias& alias : aliases()) {
    EXPECT_EQ(schema().find(alias.spelling), nullptr) << alias.spelling << " is a key itself";
    EXPECT_NE(schema().find(alias.key), nullptr) << alias.key;
    EXPECT_TRUE(spellings.insert(alias.spelling).second) << alias.spelling;
  }
  for (const ShortOption& option : short_options()) EXPECT_NE(schema().find(option.key), nullptr) << option.key;
}

TEST(Schema, KeepsItsPageInTheDocumentation) {
  const auto page = read_file(MUSTER_DOCS "/configuration.md");
  ASSERT_TRUE(page) << page.error().what;
  EXPECT_TRUE(*page == configuration_page(schema()))
      << "docs/configuration.md is stale: muster config --page > docs/configuration.md";
}

}  // namespace
}  // namespace muster::spec
