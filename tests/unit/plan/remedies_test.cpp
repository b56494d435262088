#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plan/plan_parts.hpp"
#include "plan/remedy_changes.hpp"
#include "random_questions.hpp"
#include "spec/capability.hpp"
#include "testing/contains.hpp"

namespace muster::plan {
namespace {

using muster::testing::contains;

Question training_of(std::int64_t parameters, std::vector<PlanDevice> devices) {
  Question question;
  question.model = std::make_shared<const spec::ModelDescription>(
      spec::model_of_size(parameters, spec::ElementType::bfloat16).value());
  question.workload.work = Work::training;
  question.workload.weights = WeightType::float32;
  question.workload.mixed_precision = true;
  question.devices = std::move(devices);
  return question;
}

bool has(const std::vector<Remedy>& remedies, const std::string& key, const std::string& value) {
  return std::ranges::any_of(remedies, [&](const Remedy& remedy) {
    return std::ranges::any_of(
        remedy.settings, [&](const SettingChange& change) { return change.key == key && change.value == value; });
  });
}

TEST(Remedies, OfAnyRefusedQuestionAreFewDistinctAndWithinTheLimits) {
  int refused = 0;
  for (unsigned seed = 0; seed < 250; ++seed) {
    Draw draw(seed);
    const Question question = random_question(draw, draw.maybe(0.5) ? Work::training : Work::inference);
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan) << seed;
    if (plan->fits()) continue;
    ++refused;
    const std::vector<Remedy>& remedies = plan->refusal->remedies;
    EXPECT_LE(remedies.size(), 4U) << seed;
    std::set<std::string> changes;
    for (const Remedy& remedy : remedies) {
      EXPECT_TRUE(changes.insert(remedy.change).second) << seed << " " << remedy.change;
      EXPECT_FALSE(remedy.settings.empty()) << seed;
      std::set<std::string> keys;
      for (const SettingChange& change : remedy.settings) EXPECT_TRUE(keys.insert(change.key).second) << seed;
      const auto largest = std::ranges::max(question.devices, {}, &PlanDevice::limit).limit;
      EXPECT_LE(remedy.peak, largest) << seed << " " << remedy.change;
    }
    if (question.workload.work == Work::inference) {
      EXPECT_GE(remedies.size(), 2U) << seed;
    }
  }
  EXPECT_GT(refused, 40);
}

// The smallest member is tried first; every one, applied, is a question that can be answered.
TEST(Remedies, EveryPossibleChangeIsAQuestion) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Draw draw(seed);
    const Question question = random_question(draw, draw.maybe(0.5) ? Work::training : Work::inference);
    for (const Family& family : possible_changes(question)) {
      ASSERT_FALSE(family.empty()) << seed;
      for (const Change& change : family) {
        Question tried = question;
        change.apply(tried);
        EXPECT_TRUE(question.workload.work == Work::training ? plan_training(tried) : plan_inference(tried))
            << seed << " " << change.what;
      }
    }
  }
}

TEST(Remedies, AreCombinedWhereNoneAloneIsEnough) {
  const auto plan = make_plan(training_of(70'000'000'000, gpus({80 * gibibyte, 80 * gibibyte})));
  ASSERT_TRUE(plan && plan->refusal);
  ASSERT_GE(plan->refusal->remedies.size(), 2U);
}

std::vector<Remedy> remedies_of_70b(std::size_t count, std::int64_t sequence) {
  Question question = training_of(70'000'000'000, gpus(std::vector<std::int64_t>(count, 80 * gibibyte)));
  question.workload.sequence = sequence;
  const auto plan = make_plan(question);
  if (!plan || !plan->refusal) return {};
  return plan->refusal->remedies;
}

// The remedy that changes these settings and no others.
const Remedy* find(const std::vector<Remedy>& remedies, const std::set<std::string>& keys) {
  const auto found = std::ranges::find_if(remedies, [&](const Remedy& remedy) {
    std::set<std::string> changed;
    for (const SettingChange& change : remedy.settings) changed.insert(change.key);
    return changed == keys;
  });
  return found == remedies.end() ? nullptr : &*found;
}

TEST(Remedies, OfSeventyBillionParametersOnFourGpusAreAdaptersAndRecomputation) {
  for (const std::int64_t sequence : {1024, 2048}) {
    const auto remedies = remedies_of_70b(4, sequence);
    const Remedy* remedy = find(remedies, {"model.use_lora", "model.lora_r", "model.dtype", "training.gradient_checkpointing"});
    ASSERT_NE(remedy, nullptr) << sequence;
    EXPECT_TRUE(remedy->missing.empty()) << remedy->change;
  }
}

// What a job of muster's own refuses cannot be its remedy.
TEST(Remedies, OfMustersEngineAreWhatItCanDo) {
  bool adapters = false, four_bits = false;
  for (const std::int64_t parameters : {7'000'000'000, 13'000'000'000, 30'000'000'000, 70'000'000'000}) {
    Question question = training_of(parameters, gpus({48 * gibibyte}));
    question.workload.implementation = Implementation::muster;
    const auto plan = make_plan(question);
    ASSERT_TRUE(plan && plan->refusal) << parameters;
    for (const Remedy& remedy : plan->refusal->remedies) EXPECT_TRUE(remedy.missing.empty()) << remedy.change;
    adapters = adapters || has(plan->refusal->remedies, "model.use_lora", "true");
    four_bits = four_bits || has(plan->refusal->remedies, "model.load_in_4bit", "true");
  }
  EXPECT_EQ(adapters, spec::is_available(spec::Capability::low_rank_adapters));
  EXPECT_EQ(four_bits, spec::is_available(spec::Capability::quantized_loading));
}

TEST(Remedies, HoldTheWeightsInFewerBits) {
  Question question;
  question.model = std::make_shared<const spec::ModelDescription>(
      spec::model_of_size(30'000'000'000, spec::ElementType::bfloat16).value());
  question.devices = gpus({40 * gibibyte});
  const auto wide = make_plan(question);
  ASSERT_TRUE(wide && wide->refusal);
  EXPECT_TRUE(has(wide->refusal->remedies, "model.load_in_8bit", "true"));
  // Already in 8 bits: the setting that said so is taken back.
  question.workload.packed = PackedWeights{{.code = spec::PackedCode::int8},
                                           spec::packed_weights(question.model->shape, {}).value()};
  question.devices = gpus({24 * gibibyte});
  const auto eight = make_plan(question);
  ASSERT_TRUE(eight && eight->refusal);
  EXPECT_TRUE(has(eight->refusal->remedies, "model.load_in_4bit", "true"));
  EXPECT_TRUE(has(eight->refusal->remedies, "model.load_in_8bit", "false"));
}

TEST(Remedies, PackedWeightsAreTrainedByAdaptersAlone) {
  Question question = training_of(1'000'000'000, gpus({80 * gibibyte}));
  question.workload.mixed_precision = false;
  question.workload.weights = WeightType::bfloat16;
  question.workload.packed = PackedWeights{{}, spec::packed_weights(question.model->shape, {}).value()};
  const auto refused = make_plan(question);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().what, "4 bits"));
  EXPECT_TRUE(contains(refused.error().remedy, "model.use_lora=true"));
  question.workload.adapters = adapters_beside(question.model->shape, {.rank = 8}).value();
  EXPECT_TRUE(make_plan(question)->fits());
}

TEST(Remedies, OfSeventyBillionParametersOnEightGpusTrainAllOfThemInNarrowStates) {
  const auto remedies = remedies_of_70b(8, 2048);
  const Remedy* remedy = find(remedies, {"training.gradient_checkpointing", "training.optimizer", "model.dtype", "training.mixed_precision"});
  ASSERT_NE(remedy, nullptr);
  EXPECT_TRUE(remedy->missing.empty());
}

TEST(Remedies, NeverAskForMoreHostsThanPeopleHave) {
  for (const std::int64_t parameters : {70'000'000'000, 405'000'000'000, 1'000'000'000'000})
    for (const std::int64_t size : {24, 80}) {
      const auto plan = make_plan(training_of(parameters, gpus({size * gibibyte})));
      ASSERT_TRUE(plan && plan->refusal);
      for (const Remedy& remedy : plan->refusal->remedies) {
        for (const SettingChange& change : remedy.settings)
          if (change.key == "distributed.num_nodes") {
            EXPECT_LE(std::stoll(change.value), 8) << remedy.change;
          }
        EXPECT_LE(remedy.host, std::int64_t{2} << 40) << remedy.change;
      }
    }
  const auto hopeless = make_plan(training_of(1'000'000'000'000, gpus({24 * gibibyte})));
  ASSERT_TRUE(hopeless && hopeless->refusal);
  EXPECT_TRUE(hopeless->refusal->remedies.empty()) << hopeless->refusal->remedies.front().change;
}

TEST(Remedies, KeepShardsInHostMemoryOnlyWhereThereIsEnough) {
  Question question = training_of(8'000'000'000, gpus({80 * gibibyte}));
  const auto offered = [&] {
    const auto plan = make_plan(question);
    const auto found = std::ranges::find_if(plan->refusal->remedies, [](const Remedy& remedy) {
      return has({remedy}, "distributed.fsdp_cpu_offload", "true");
    });
    return found == plan->refusal->remedies.end() ? std::nullopt : std::optional(*found);
  };
  const std::int64_t states = 16 * std::int64_t{8'000'000'000};
  question.host_memory = 2 * states;
  const auto enough = offered();
  ASSERT_TRUE(enough);
  EXPECT_GE(enough->host, states);
  EXPECT_TRUE(contains(enough->change, "of host memory"));
  EXPECT_FALSE(contains(enough->change, "not known"));
  question.host_memory = states / 2;
  const auto small = offered();
  EXPECT_TRUE(!small || small->host <= states / 2);
  question.host_memory.reset();
  if (const auto unknown = offered()) {
    EXPECT_TRUE(contains(unknown->change, "how much is free there is not known"));
  }
}

TEST(Remedies, LayModulesInHostMemoryOnlyWhereThereIsEnough) {
  Question question;
  question.model = std::make_shared<const spec::ModelDescription>(
      spec::model_of_size(70'000'000'000, spec::ElementType::bfloat16).value());
  question.devices = gpus({24 * gibibyte});
  question.cpu_limit = 200 * gibibyte;
  question.host_memory = 150 * gibibyte;
  EXPECT_TRUE(make_plan(question)->fits());
  question.host_memory = 50 * gibibyte;
  const auto plan = make_plan(question);
  ASSERT_FALSE(plan->fits());
  EXPECT_TRUE(contains(plan->refusal->reason, "of host memory", "50.0 GiB are free"));
}

TEST(Remedies, SmallerMicroBatchesKeepTheBatch) {
  Question question = training_of(1'000'000'000, gpus({40 * gibibyte}));
  question.micro_batch = 24;
  question.accumulation = 2;
  question.batch = 48;
  const auto plan = make_plan(question);
  ASSERT_TRUE(plan && plan->refusal);
  bool found = false;
  for (const Remedy& remedy : plan->refusal->remedies) {
    std::int64_t micro = 0, passes = 0;
    for (const SettingChange& change : remedy.settings) {
      if (change.key == "training.micro_batch_size") micro = std::stoll(change.value);
      if (change.key == "training.gradient_accumulation_steps") passes = std::stoll(change.value);
    }
    if (micro == 0) continue;
    found = true;
    EXPECT_EQ(micro * passes, 48) << remedy.change;
  }
  EXPECT_TRUE(found);
}

TEST(Remedies, NameSpareGpus) {
  Question question = training_of(7'000'000'000, gpus({80 * gibibyte}));
  for (int number = 1; number < 8; ++number)
    question.spare.push_back({number, "GPU", "", 80 * gibibyte, 80 * gibibyte});
  const auto plan = make_plan(question);
  ASSERT_TRUE(plan && plan->refusal);
  EXPECT_TRUE(std::ranges::any_of(plan->refusal->remedies, [](const Remedy& remedy) {
    return remedy.settings.size() == 1 && remedy.settings[0].key == "distributed.gpu_ids";
  }));
}

TEST(Remedies, RaiseLimitsToWhatIsFree) {
  Question question = training_of(1'000'000'000, gpus({8 * gibibyte, 8 * gibibyte}));
  question.limits_given = true;
  for (PlanDevice& device : question.devices) device.free = 80 * gibibyte;
  const auto plan = make_plan(question);
  ASSERT_TRUE(plan && plan->refusal);
  EXPECT_TRUE(has(plan->refusal->remedies, "model.max_memory", "0=81920MiB,1=81920MiB"));
}

TEST(Remedies, LeaveOutTheGpusThatAreTooSmall) {
  Question question = training_of(1'000'000'000, gpus({8 * gibibyte, 80 * gibibyte, 80 * gibibyte}));
  question.scheme = Scheme::ddp;
  const auto plan = make_plan(question);
  ASSERT_TRUE(plan && plan->refusal);
  EXPECT_TRUE(has(plan->refusal->remedies, "distributed.gpu_ids", "1,2"));
}

TEST(Remedies, OfAPlanThatFitsThereAreNone) {
  const auto plan = make_plan(training_of(100'000'000, gpus({80 * gibibyte})));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->fits());
}

}  // namespace
}  // namespace muster::plan
