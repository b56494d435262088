#include "job/job_progress.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::job {

std::string progress_line(const JobProgress& progress) {
  if (progress.share) return fmt::format("{} … {:.0f} %", progress.what, 100 * *progress.share);
  return fmt::format("{} … {} s", progress.what,
                     std::chrono::duration_cast<std::chrono::seconds>(progress.elapsed).count());
}

JobProgress RankProgress::heard(const wire::Progress& told, int rank) {
  if (told.what != what_) shares_.clear();
  what_ = told.what;
  JobProgress progress{
      what_, std::nullopt,
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began_)};
  if (!told.total || *told.total <= 0) return progress;
  shares_[rank] = std::min(static_cast<double>(told.done) / static_cast<double>(*told.total), 1.0);
  progress.share = std::ranges::min_element(shares_, {}, [](const auto& entry) { return entry.second; })->second;
  return progress;
}

void RankProgress::restart() { *this = RankProgress(); }

}  // namespace muster::job
