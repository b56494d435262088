// How far the ranks of a job have got with what they are doing.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "wire/event.hpp"

namespace muster::job {

struct JobProgress {
  std::string what;                      // "loading", "measuring the loss", "answering questions"
  std::optional<double> share;           // of it that is done, from 0 to 1; absent: not known
  std::chrono::milliseconds elapsed{0};  // since the job began, or had a result
};

// "answering questions … 45 %"
std::string progress_line(const JobProgress& progress);

class RankProgress {
 public:
  // The slowest rank counts.
  JobProgress heard(const wire::Progress& told, int rank);
  // The job has a result, and continues.
  void restart();

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::string what_;
  std::map<int, double> shares_;  // by rank
};

}  // namespace muster::job
