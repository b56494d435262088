#include "queue/journaled_scheduler.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "base/files.hpp"
#include "base/replace_folder.hpp"
#include "schedule/journal.hpp"

namespace muster::queue {

schedule::Time SteadyClock::now() const {
  return std::chrono::floor<schedule::Duration>(began_ + (std::chrono::steady_clock::now() - steady_));
}

schedule::Time SteadyClock::moment_of(std::chrono::system_clock::time_point moment) const {
  return now() - std::chrono::floor<schedule::Duration>(std::chrono::system_clock::now() - moment);
}

Result<JournaledScheduler> JournaledScheduler::open(const StateFolder& folder) {
  auto journal = store::AppendedFile::open_lines(folder.journal());
  if (!journal) return journal.error();
  const auto text = read_file(folder.journal());
  if (!text) return text.error();
  const auto events = schedule::read_journal(*text, folder.journal().string());
  if (!events) return events.error();
  auto scheduler = schedule::replay(events->events);
  if (!scheduler) return scheduler.error();
  return JournaledScheduler(std::move(*journal), std::move(*scheduler), events->events.size());
}

Result<void> JournaledScheduler::tell(schedule::Happening what) {
  const schedule::Event event{moment_, std::move(what)};
  auto decisions = scheduler_.apply(event);
  if (!decisions) return decisions.error();
  unwritten_ += to_line(event);
  unwritten_ += '\n';
  ++lines_;
  std::ranges::move(*decisions, std::back_inserter(decisions_));
  return {};
}

Result<void> JournaledScheduler::write() {
  if (unwritten_.empty()) return {};
  if (auto written = journal_.append(unwritten_); !written) return written;
  if (auto flushed = journal_.flush(); !flushed) return flushed;
  unwritten_.clear();
  return {};
}

Result<bool> JournaledScheduler::shorten(const std::unordered_set<schedule::JobIndex>& forgotten) {
  if (!unwritten_.empty()) throw std::logic_error("a journal is written before it is shortened");
  const schedule::Event event{scheduler_.now(), scheduler_.snapshot(forgotten)};
  lines_ = 0;  // it is not tried again before it has grown again
  const std::string line = to_line(event) + "\n";
  const auto read = schedule::read_journal(line, "the snapshot");
  auto restored = read ? schedule::replay(read->events) : Result<schedule::Scheduler>(read.error());
  if (!restored) return false;
  if (auto written = write_file_atomically(journal_.path(), line); !written) return written.error();
  if (auto flushed = flush_folder(journal_.path().parent_path()); !flushed) return flushed.error();
  auto journal = store::AppendedFile::open_lines(journal_.path());
  if (!journal) return journal.error();
  journal_ = std::move(*journal);
  scheduler_ = std::move(*restored);
  return true;
}

}  // namespace muster::queue
