#include "generate/pipeline_runner.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <thread>

#include "communicate/thread_group.hpp"

namespace muster::generate {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t width = 3;

// Adds its number to every element, as often as it is called for; the last one draws what came out.
class AddingStage : public StageWork {
 public:
  explicit AddingStage(int number) : number_(number) {}
  std::function<void()> while_computing = [] {};

  at::Tensor forward(const Step& step, const at::Tensor& before) override {
    while_computing();
    const at::Tensor rows =
        before.defined() ? before : at::tensor(step.batch.tokens, at::kFloat).unsqueeze(1).expand({-1, width});
    return rows + number_;
  }
  std::vector<tensor::ChosenToken> draw(const Step& step, const at::Tensor& hidden) override {
    std::vector<tensor::ChosenToken> tokens;
    for (const auto& draw : step.draws)
      tokens.push_back({hidden[draw.row][0].item().to<std::int32_t>(), hidden[draw.row][1].item().to<float>()});
    return tokens;
  }
  at::Tensor empty_rows(std::int64_t rows) const override { return at::empty({rows, width}); }

 private:
  int number_;
};

Step step_of(std::vector<std::int64_t> tokens, std::vector<std::int64_t> drawn) {
  Step step;
  step.batch.tokens = std::move(tokens);
  for (const std::int64_t row : drawn) step.draws.push_back({row, 0});
  return step;
}

// Every stage a thread; first() runs with the first one's runner.
class Stages {
 public:
  explicit Stages(int count, std::chrono::milliseconds timeout = 20s)
      : ranks_(communicate::make_thread_group(count, timeout)) {
    for (int i = 0; i < count; ++i) works.push_back(std::make_unique<AddingStage>(10 * (i + 1)));
  }
  void run(const std::function<void(StepRunner&)>& first) {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < works.size(); ++i) others.emplace_back([this, i] { serve(i); });
    PipelineLink link({*ranks_[0], nullptr}, silence);
    PipelineRunner runner(*works[0], link, static_cast<int>(works.size()));
    first(runner);
    link.end();
  }

  std::vector<std::unique_ptr<AddingStage>> works;
  std::vector<std::string> failures;  // what the other stages ended with
  std::chrono::milliseconds silence = 5s;

 private:
  void serve(std::size_t stage) {
    try {
      PipelineLink link({*ranks_[stage], nullptr}, silence);
      run_stage(*works[stage], link);
    } catch (const std::exception& problem) {
      const std::lock_guard lock(mutex_);
      failures.emplace_back(problem.what());
    }
  }

  std::vector<std::unique_ptr<communicate::Communicator>> ranks_;
  std::mutex mutex_;
};

TEST(Pipeline, TakesAStepThroughAllStagesInTheirOrder) {
  for (const int count : {2, 3, 4}) {
    Stages stages(count);
    std::vector<tensor::ChosenToken> drawn;
    stages.run([&](StepRunner& runner) {
      runner.begin(step_of({1, 2, 3}, {2, 0}));
      drawn = runner.finish();
    });
    const int added = 10 * count * (count + 1) / 2;
    EXPECT_EQ(drawn, (std::vector<tensor::ChosenToken>{{3 + added, static_cast<float>(3 + added)},
                                                       {1 + added, static_cast<float>(1 + added)}}));
    EXPECT_TRUE(stages.failures.empty());
  }
}

TEST(Pipeline, FinishesStepsInTheOrderInWhichTheyWereBegun) {
  Stages stages(4);
  std::vector<std::int32_t> drawn;
  stages.run([&](StepRunner& runner) {
    std::int64_t begun = 0;
    for (; begun < runner.depth(); ++begun) runner.begin(step_of({begun}, {0}));
    for (; begun < 40; ++begun) {
      drawn.push_back(runner.finish().front().token);
      runner.begin(step_of({begun}, {0}));
    }
    for (int i = 0; i < runner.depth(); ++i) drawn.push_back(runner.finish().front().token);
  });
  ASSERT_EQ(drawn.size(), 40U);
  for (std::int32_t i = 0; i < 40; ++i) EXPECT_EQ(drawn[static_cast<std::size_t>(i)], i + 100);
}

TEST(Pipeline, AnswersAStepThatDrawsNothing) {
  Stages stages(2);
  stages.run([](StepRunner& runner) {
    runner.begin(step_of({1}, {}));
    EXPECT_TRUE(runner.finish().empty());
  });
}

// Each stage waits, while it computes, until all others compute, too. Were one idle, this would never end.
TEST(Pipeline, KeepsAllStagesBusyAtOnce) {
  constexpr int count = 4, rounds = 5;
  Stages stages(count);
  std::barrier all_compute(count);
  for (int i = 0; i < count; ++i)
    stages.works[static_cast<std::size_t>(i)]->while_computing = [&all_compute, i, calls = 0]() mutable {
      // A stage has its first step when the stages before it have had as many.
      if (++calls >= count - i && calls < count - i + rounds) all_compute.arrive_and_wait();
    };
  int finished = 0;
  stages.run([&](StepRunner& runner) {
    ASSERT_GE(runner.depth(), count);
    std::int64_t begun = 0;
    const auto begin = [&] { runner.begin(step_of({begun++}, {0})); };
    for (int i = 0; i < runner.depth(); ++i) begin();
    for (int i = 0; i < 2 * rounds; ++i, ++finished) {
      runner.finish();
      begin();
    }
    for (int i = 0; i < runner.depth(); ++i, ++finished) runner.finish();
  });
  EXPECT_EQ(finished, 2 * rounds + count);
}

TEST(Pipeline, WaitsLongerThanItsTimeOutForAStepWhenThereIsNone) {
  Stages stages(3, 1s);
  stages.silence = 100ms;
  stages.run([](StepRunner& runner) {
    std::this_thread::sleep_for(2500ms);
    runner.begin(step_of({1}, {0}));
    EXPECT_EQ(runner.finish().front().token, 61);
  });
  EXPECT_TRUE(stages.failures.empty()) << stages.failures.front();
}

TEST(Pipeline, EndsOnEveryStageWhenOneFails) {
  Stages stages(3);
  stages.works[1]->while_computing = [] { throw std::runtime_error("the middle one broke"); };
  EXPECT_THROW(stages.run([](StepRunner& runner) {
    runner.begin(step_of({1}, {0}));
    runner.finish();
  }),
               communicate::CommunicationError);
  EXPECT_EQ(stages.failures.size(), 2U);
}

}  // namespace
}  // namespace muster::generate
