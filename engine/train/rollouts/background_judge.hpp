// Rewards on a thread of their own, so that what judges slowly keeps no device waiting.
//
// Note [Judged beside]
// What a round's answers earn follows from the answers alone, so that it does not matter what is computed meanwhile.
// Functions that use the device judge at once, on the thread that computes; all others, be they programs, functions in
// Python, models of other processes or code in a sandbox, on the one thread that this has, which starts the programs and
// which they end with.
#pragma once

#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

#include "reward/judge.hpp"

namespace muster::train {

class BackgroundJudge {
 public:
  // stop: that which the judge was made with.
  BackgroundJudge(reward::Judge judge, std::stop_source stop);
  // Stops what is under way, and lets programs end.
  ~BackgroundJudge();

  // As metrics and files call what judges.
  const std::vector<std::string_view>& names() const { return names_; }
  // What the answers refer to must stay until finish(), which comes before the next start().
  void start(std::vector<reward::Answered> answers);
  // Waits. One for each answer, in their order; an Error is the judge's own.
  Result<std::vector<reward::Judged>> finish();

 private:
  using Outcome = Result<std::vector<reward::Judged>>;
  struct Job {
    std::vector<reward::Answered> answers;
    Result<reward::Judge::Values> known;  // of functions that use the device
    std::promise<Outcome> outcome;
  };
  void work();

  std::stop_source stop_;
  std::optional<reward::Judge> judge_;  // one thread at a time
  std::vector<std::string_view> names_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Job> asked_;
  std::future<Outcome> outcome_;  // of what was started last
  std::jthread worker_;
};

}  // namespace muster::train
