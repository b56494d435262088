// Judging on a thread of its own, and at once what uses the device.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <stdexcept>
#include <thread>

#include "train/rollouts/background_judge.hpp"

namespace muster::train {
namespace {

using Values = std::vector<std::optional<double>>;

class Asked final : public reward::Part {
 public:
  Asked(bool uses_device, std::function<Result<Values>(std::size_t)> answer)
      : uses_device_(uses_device), answer_(std::move(answer)) {}
  Result<Values> judge(std::span<const reward::Answered> answers) override { return answer_(answers.size()); }
  bool uses_device() const override { return uses_device_; }

 private:
  bool uses_device_;
  std::function<Result<Values>(std::size_t)> answer_;
};

using Answer = std::function<Result<Values>(std::size_t)>;

reward::Judge judge_of(Answer on_device, Answer beside) {
  std::vector<reward::Judge::Weighted> parts;
  parts.push_back({"program", 1, std::make_unique<Asked>(false, std::move(beside))});
  parts.push_back({"model", 10, std::make_unique<Asked>(true, std::move(on_device))});
  return reward::Judge({}, std::move(parts));
}

Result<Values> all(std::size_t count, double value) { return Values(count, value); }

TEST(BackgroundJudge, AsksWhatUsesTheDeviceAtOnceAndTheOthersBeside) {
  const auto here = std::this_thread::get_id();
  std::thread::id of_device, of_others;
  std::latch goes_on(1);
  const auto on_device = [&](std::size_t count) {
    of_device = std::this_thread::get_id();
    return all(count, 2);
  };
  const auto beside = [&](std::size_t count) {
    goes_on.wait();
    of_others = std::this_thread::get_id();
    return all(count, 1);
  };
  BackgroundJudge judge(judge_of(on_device, beside), {});
  judge.start(std::vector<reward::Answered>(3));
  EXPECT_EQ(of_device, here);
  goes_on.count_down();  // if start() waited for the others, this would never come
  const auto judged = judge.finish();
  ASSERT_TRUE(judged);
  ASSERT_EQ(judged->size(), 3u);
  EXPECT_EQ((*judged)[2].reward, 21);
  EXPECT_EQ((*judged)[2].parts, (Values{1, 2}));
  EXPECT_NE(of_others, here);
}

TEST(BackgroundJudge, HandsOverErrorsAndThrownOnesAlike) {
  int round = 0;
  const auto beside = [&](std::size_t count) -> Result<Values> {
    if (++round == 2) return Error{Error::Kind::failed, "no judgement", "try again"};
    if (round == 3) throw std::runtime_error("a bug");
    return all(count, 1);
  };
  BackgroundJudge judge(judge_of([](std::size_t count) { return all(count, 0); }, beside), {});
  judge.start(std::vector<reward::Answered>(1));
  EXPECT_TRUE(judge.finish());
  judge.start(std::vector<reward::Answered>(1));
  const auto failed = judge.finish();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().what, "reward function program: no judgement");
  judge.start(std::vector<reward::Answered>(1));
  EXPECT_THROW(static_cast<void>(judge.finish()), std::runtime_error);
}

TEST(BackgroundJudge, IsToldToStopWhereNobodyWaitsForItAnyMore) {
  std::stop_source stop;
  std::atomic<bool> stopped = false;
  const auto beside = [&, token = stop.get_token()](std::size_t) -> Result<Values> {
    while (!token.stop_requested()) std::this_thread::yield();
    stopped = true;
    return reward::stopped_judging();
  };
  {
    BackgroundJudge judge(judge_of([](std::size_t count) { return all(count, 0); }, beside), stop);
    judge.start(std::vector<reward::Answered>(1));
  }
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace muster::train
