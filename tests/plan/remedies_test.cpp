#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plan/plan_parts.hpp"
#include "plan/remedy_changes.hpp"
#include "random_questions.hpp"

namespace muster::plan {
namespace {

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

bool has(const std::vector<Remedy>& remedies, const std::string& option, const std::string& value) {
  return std::ranges::any_of(remedies, [&](const Remedy& remedy) {
    return std::ranges::any_of(
        remedy.options, [&](const OptionChange& change) { return change.option == option && change.value == value; });
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
      EXPECT_FALSE(remedy.options.empty()) << seed;
      std::set<std::string> options;
      for (const OptionChange& change : remedy.options) EXPECT_TRUE(options.insert(change.option).second) << seed;
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
    for (const OptionChange& change : remedy.options) {
      if (change.option == "--micro-batch") micro = std::stoll(change.value);
      if (change.option == "--accumulation") passes = std::stoll(change.value);
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
    return remedy.options.size() == 1 && remedy.options[0].option == "--gpu-ids";
  }));
}

TEST(Remedies, RaiseLimitsToWhatIsFree) {
  Question question = training_of(1'000'000'000, gpus({8 * gibibyte, 8 * gibibyte}));
  question.limits_given = true;
  for (PlanDevice& device : question.devices) device.free = 80 * gibibyte;
  const auto plan = make_plan(question);
  ASSERT_TRUE(plan && plan->refusal);
  EXPECT_TRUE(has(plan->refusal->remedies, "--max-memory", "0=81920MiB,1=81920MiB"));
}

TEST(Remedies, LeaveOutTheGpusThatAreTooSmall) {
  Question question = training_of(1'000'000'000, gpus({8 * gibibyte, 80 * gibibyte, 80 * gibibyte}));
  question.scheme = Scheme::ddp;
  const auto plan = make_plan(question);
  ASSERT_TRUE(plan && plan->refusal);
  EXPECT_TRUE(has(plan->refusal->remedies, "--gpu-ids", "1,2"));
}

TEST(Remedies, OfAPlanThatFitsThereAreNone) {
  const auto plan = make_plan(training_of(100'000'000, gpus({80 * gibibyte})));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->fits());
}

}  // namespace
}  // namespace muster::plan
