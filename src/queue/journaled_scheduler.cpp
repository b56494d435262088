#include "queue/journaled_scheduler.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "system/files.hpp"
#include "system/replace_folder.hpp"
#include "queue/journal_repair.hpp"
#include "schedule/journal.hpp"

namespace muster::queue {

namespace {

bool has_open_jobs(const schedule::Scheduler& scheduler) {
  return std::ranges::any_of(scheduler.jobs().all(), [](const auto& record) { return !is_settled(record.state); });
}

}  // namespace

Result<JournaledScheduler> JournaledScheduler::open(const StateFolder& folder) {
  auto journal = store::AppendedFile::open_lines(folder.journal());
  if (!journal) return journal.error();
  const auto text = read_file(folder.journal());
  if (!text) return Error{Error::Kind::failed, text.error().what, text.error().remedy};
  const auto events = schedule::read_journal(*text, folder.journal().string());
  if (!events) return with_way_out(events.error());
  auto scheduler = schedule::replay(events->events);
  if (!scheduler) return with_way_out(scheduler.error());
  const auto boot = read_file(folder.boot());
  QueueClock clock(read_clocks(), boot ? std::optional(parse_boot(*boot)) : std::nullopt, scheduler->now(),
                   has_open_jobs(*scheduler));
  return JournaledScheduler(std::move(*journal), std::move(*scheduler), events->events.size(), std::move(clock));
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
  // What could not be flushed is written again: the system may have dropped it.
  const std::uint64_t begin = unflushed_from_.value_or(journal_.size());
  if (auto written = journal_.replace_from(begin, unwritten_); !written) return written;
  unflushed_from_ = begin;
  if (auto flushed = journal_.flush(); !flushed) return flushed;
  unflushed_from_.reset();
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
  // The new file is open before it replaces the old one: nothing that can fail then lies between the two.
  const std::filesystem::path beside = journal_.path().string() + ".new";
  ::unlink(beside.c_str());  // left by a killed process
  auto journal = store::AppendedFile::create(beside);
  if (!journal) return journal.error();
  if (auto written = journal->append(line); !written) return written.error();
  if (auto flushed = journal->flush(); !flushed) return flushed.error();
  if (auto moved = journal->move_to(journal_.path()); !moved) return moved.error();
  journal_ = std::move(*journal);
  scheduler_ = std::move(*restored);
  if (auto flushed = flush_folder(journal_.path().parent_path()); !flushed) return flushed.error();
  return true;
}

}  // namespace muster::queue
