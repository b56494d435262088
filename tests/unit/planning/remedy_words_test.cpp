#include "planning/remedy_words.hpp"

#include <gtest/gtest.h>

#include "planning/plan_report.hpp"

namespace muster::planning {
namespace {

using plan::SettingChange;
using spec::Command;
using Changes = std::vector<SettingChange>;

plan::Remedy remedy(Changes settings) {
  plan::Remedy remedy;
  remedy.change = "why";
  remedy.settings = std::move(settings);
  return remedy;
}

TEST(RemedyWords, OfAPlanAreItsOptions) {
  const PlanCommandLine plan({{"", {"model"}}, {"--train", {}}}, plan::Work::training);
  EXPECT_EQ(plan({{"training.gradient_checkpointing", "full"}, {"distributed.strategy", "fsdp"}}),
            "muster plan model --train --checkpointing --strategy fsdp");
  EXPECT_EQ(plan({{"training.gradient_checkpointing", "selective"}, {"allocator", "expandable"}}),
            "muster plan model --train training.gradient_checkpointing=selective --allocator expandable");
}

TEST(RemedyWords, OfAPlanReplaceWhatWasGivenForTheSameSetting) {
  const PlanCommandLine plan({{"", {"model", "model.load_in_8bit=true"}}, {"--batch", {"4"}}}, plan::Work::inference);
  EXPECT_EQ(plan({{"model.load_in_4bit", "true"}, {"model.load_in_8bit", "false"}, {"generation.batch_size", "2"}}),
            "muster plan model --dtype int4 --batch 2");
}

TEST(RemedyWords, OfTrainingAreSettingsAndAVariableGoesFirst) {
  EXPECT_EQ(remedy_command(Command::train, {{"distributed.fsdp_cpu_offload", "true"}, {"distributed.num_nodes", "2"}}),
            "muster train … distributed.fsdp_cpu_offload=true --nnodes 2");
  EXPECT_EQ(remedy_command(Command::train, {{"training.micro_batch_size", "2"}, {"allocator", "expandable"}}),
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True muster train … training.micro_batch_size=2");
}

TEST(RemedyWords, OfAnEvaluationShortenItsOwnSequences) {
  const plan::Remedy shorter = remedy({{"generation.sequence_length", "128"}});
  EXPECT_EQ(remedy_options(Command::evaluate, shorter), "training.sequence_length=128 (why)");
  EXPECT_EQ(remedy_options(Command::generate, shorter), "generation.sequence_length=128 (why)");
}

TEST(RemedyWords, AreNoneWhereTheCommandCannotMakeTheChange) {
  EXPECT_EQ(remedy_options(Command::generate, remedy({{"model.dtype", "bfloat16"}})), "--dtype bfloat16 (why)");
  EXPECT_FALSE(remedy_options(Command::generate, remedy({{"model.use_lora", "true"}})));
  EXPECT_FALSE(remedy_words(Command::generate, {{"training.optimizer", "adamw_8bit"}}));
  EXPECT_EQ(remedy_options(Command::train, remedy({{"training.optimizer", "adamw_8bit"}})),
            "training.optimizer=adamw_8bit (why)");
}

TEST(RemedyWords, OfAdaptersAndPackedWeightsAreSettingsOrThePlansOwnOptions) {
  const Changes adapters{{"model.dtype", "bfloat16"}, {"model.use_lora", "true"}, {"model.lora_r", "8"},
                         {"model.load_in_4bit", "true"}};
  const PlanCommandLine plan({{"", {"model"}}, {"--train", {}}}, plan::Work::training);
  EXPECT_EQ(plan(adapters), "muster plan model --train --lora 8 --dtype int4");
  EXPECT_EQ(remedy_command(Command::train, {adapters.begin() + 1, adapters.end()}),
            "muster train … model.use_lora=true model.lora_r=8 model.load_in_4bit=true");
  EXPECT_EQ(remedy_options(Command::generate, remedy({{"model.load_in_8bit", "true"}})),
            "model.load_in_8bit=true (why)");
}

TEST(RemedyWords, StandInThePlaceOfTheOptionThatAnErrorNames) {
  const auto words = [](std::string remedy) {
    return in_words_of(Command::train, {Error::Kind::bad_input, "", std::move(remedy)}).remedy;
  };
  EXPECT_EQ(words("--batch 8, or 12"), "training.batch_size=8, or 12");
  EXPECT_EQ(words("--num-gpus 2"), "--num-gpus 2");
}

}  // namespace
}  // namespace muster::planning
