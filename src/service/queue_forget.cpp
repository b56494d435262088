// muster queue forget: removes every trace of jobs that ended long ago.
#include <fmt/format.h>
#include <unistd.h>

#include <thread>
#include <unordered_set>

#include "queue/conductor_process.hpp"
#include "queue/request.hpp"
#include "service/queue.hpp"

namespace muster::service {
namespace {

constexpr std::chrono::milliseconds forget_pause(5);

bool is_old(const schedule::JobRecord& record, schedule::Time before) {
  return is_settled(record.state) && record.ended && *record.ended <= before;
}

// Requests that could not be accepted, and why.
void remove_old_refusals(const std::filesystem::path& folder, std::chrono::milliseconds older) {
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    std::error_code ignored;
    const auto written = entry->last_write_time(ignored);
    if (!ignored && std::filesystem::file_time_type::clock::now() - written >= older)
      std::filesystem::remove(entry->path(), ignored);
  }
}

}  // namespace

// The folders first: if interrupted, this leaves jobs without a log, which the next call removes. Nothing writes
// into the folder of a job that is settled.
Result<std::size_t> Queue::forget(std::chrono::milliseconds older) {
  if (const auto seen = look(); !seen) return seen.error();
  const schedule::Time before =
      std::chrono::floor<schedule::Duration>(std::chrono::system_clock::now()) - schedule::Duration(older);
  const schedule::Scheduler& scheduler = view_.scheduler();
  std::unordered_set<schedule::JobIndex> old;
  for (const schedule::JobRecord& record : scheduler.jobs().all())
    if (is_old(record, before)) old.insert(record.rank.order);
  std::unordered_set<std::string> ids;
  for (const schedule::JobIndex job : scheduler.can_forget(std::move(old)))
    ids.insert(scheduler.jobs().at(job).job.id.text);
  const auto archive = queue::read_archive(folder_);
  if (!archive) return archive.error();
  for (const queue::ArchivedJob& job : *archive)
    if (is_old(job.record, before) && !scheduler.jobs().find(job.record.job.id)) ids.insert(job.record.job.id.text);
  remove_old_refusals(folder_.refused(), older);
  if (ids.empty()) return std::size_t{0};
  queue::ForgetRequest forget;
  for (const std::string& id : ids) {
    std::error_code failure;
    std::filesystem::remove_all(folder_.job({id}), failure);
    if (failure)
      return Error{Error::Kind::failed,
                   fmt::format("cannot remove {}: {}", folder_.job({id}).string(), failure.message()),
                   "check its permissions"};
    forget.jobs.push_back({id});
  }
  queue::Request request(std::move(forget));
  const auto file = hand_in(request);
  if (!file) return file.error();
  for (int starts = 0; ::access(file->c_str(), F_OK) == 0;) {
    std::this_thread::sleep_for(forget_pause);
    if (queue::conductor_runs(folder_)) continue;
    constexpr int most_starts = 20;
    if (++starts > most_starts)
      return Error{Error::Kind::failed, "the queue's conductor does not stay",
                   fmt::format("tail {}", folder_.conductor_log().string())};
    if (auto ensured = ensure_conductor(); !ensured) return ensured.error();
  }
  return ids.size();
}

}  // namespace muster::service
