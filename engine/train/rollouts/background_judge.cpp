#include "train/rollouts/background_judge.hpp"

#include <stdexcept>
#include <utility>

namespace muster::train {

BackgroundJudge::BackgroundJudge(reward::Judge judge, std::stop_source stop)
    : stop_(std::move(stop)), judge_(std::move(judge)), names_(judge_->names()), worker_([this] { work(); }) {}

BackgroundJudge::~BackgroundJudge() { stop_.request_stop(); }

void BackgroundJudge::start(std::vector<reward::Answered> answers) {
  if (outcome_.valid()) throw std::logic_error("answers are to be judged while others are");
  auto known = judge_->judge_on_device(answers);
  const std::lock_guard lock(mutex_);
  asked_.emplace(std::move(answers), std::move(known), std::promise<Outcome>());
  outcome_ = asked_->outcome.get_future();
  changed_.notify_one();
}

Result<std::vector<reward::Judged>> BackgroundJudge::finish() { return outcome_.get(); }

void BackgroundJudge::work() {
  const std::stop_token stop = stop_.get_token();
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return asked_.has_value(); })) break;
    Job job = *std::exchange(asked_, std::nullopt);
    lock.unlock();
    try {
      job.outcome.set_value(job.known ? judge_->judge(job.answers, std::move(*job.known)) : Outcome(job.known.error()));
    } catch (...) {
      job.outcome.set_exception(std::current_exception());
    }
  }
  judge_.reset();  // its programs end with this thread
}

}  // namespace muster::train
