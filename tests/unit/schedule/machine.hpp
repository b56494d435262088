// A scheduler with GPUs, and short words for the events that tests are made of.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "schedule/scheduler.hpp"

namespace muster::schedule {

constexpr Time at(std::int64_t seconds) { return Time(std::chrono::seconds(seconds)); }
constexpr Duration seconds(std::int64_t count) { return std::chrono::seconds(count); }

inline Job job(std::string id, int gpus = 1) {
  Job made;
  made.id.text = std::move(id);
  made.gpus = GpuRequest::exactly(gpus);
  return made;
}

inline Job lasting(Job made, std::int64_t length) {
  made.prediction = seconds(length);
  return made;
}

inline Scheduler with_gpus(int count, Rules rules = {}, ChooseGpus choose = {}) {
  Scheduler scheduler(std::move(choose));
  EXPECT_TRUE(scheduler.apply({Time{}, rules}));
  for (int gpu = 0; gpu < count; ++gpu) EXPECT_TRUE(scheduler.apply({Time{}, GpuFound{std::to_string(gpu)}}));
  return scheduler;
}

// A scheduler that is told things second by second, and what it decided last.
struct Machine {
  explicit Machine(int gpus, Rules rules = {}, ChooseGpus choose = {})
      : scheduler(with_gpus(gpus, rules, std::move(choose))) {}

  std::vector<Decision> tell(std::int64_t second, Happening what) {
    auto decided = scheduler.apply({at(second), std::move(what)});
    EXPECT_TRUE(decided) << decided.error().what;
    if (!decided) return {};
    return *decided;
  }
  std::vector<Decision> submit(std::int64_t second, std::vector<Job> jobs) {
    return tell(second, Submitted{std::move(jobs)});
  }
  std::vector<Decision> succeed(std::int64_t second, std::string id) { return tell(second, Ended{{std::move(id)}}); }
  std::vector<Decision> fail(std::int64_t second, std::string id) {
    return tell(second, Ended{{std::move(id)}, Ended::How::exited, 1});
  }
  JobState state(const std::string& id) const { return scheduler.jobs().at(*scheduler.jobs().find({id})).state; }
  std::vector<int> gpus(const std::string& id) const {
    std::vector<int> numbers;
    for (const GpuNumber gpu : scheduler.jobs().at(*scheduler.jobs().find({id})).gpus) numbers.push_back(number(gpu));
    return numbers;
  }

  Scheduler scheduler;
};

inline std::vector<std::string> started(const std::vector<Decision>& decisions) {
  std::vector<std::string> ids;
  for (const Decision& decision : decisions)
    if (const auto* start = std::get_if<Start>(&decision)) ids.push_back(start->job.text);
  return ids;
}

using Ids = std::vector<std::string>;
using Numbers = std::vector<int>;

}  // namespace muster::schedule
