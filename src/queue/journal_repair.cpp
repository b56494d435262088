#include "queue/journal_repair.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>

#include "system/file_lock.hpp"
#include "system/files.hpp"
#include "base/text.hpp"
#include "queue/archive.hpp"
#include "queue/command_book.hpp"
#include "schedule/journal.hpp"

namespace muster::queue {
namespace {

struct Reading {
  schedule::Scheduler scheduler;
  std::size_t lines = 0, bytes = 0;  // that were usable
};

Reading read_as_far_as_possible(std::string_view text) {
  Reading reading;
  while (true) {
    const std::size_t end = text.find('\n', reading.bytes);
    if (end == std::string_view::npos) return reading;
    const auto event = schedule::read_line(text.substr(reading.bytes, end - reading.bytes), "");
    if (!event || !reading.scheduler.apply(*event)) return reading;
    ++reading.lines;
    reading.bytes = end + 1;
  }
}

std::filesystem::path unused_name(const std::filesystem::path& journal) {
  for (int number = 1; true; ++number)
    if (auto path = std::filesystem::path(fmt::format("{}.damaged-{}", journal.string(), number));
        ::access(path.c_str(), F_OK) != 0)
      return path;
}

bool is_known(const Batch& batch, const schedule::Scheduler& scheduler, const std::unordered_set<std::string>& archived) {
  return std::ranges::any_of(batch.jobs, [&](const QueuedJob& queued) {
    return scheduler.jobs().find(queued.job.id) || archived.contains(queued.job.id.text);
  });
}

// In the order in which they were submitted, and before what is in the inbox: later ones may depend on earlier ones.
Result<std::size_t> hand_in_again(const StateFolder& folder, const schedule::Scheduler& scheduler) {
  const auto rows = read_archive(folder);
  if (!rows) return rows.error();
  std::unordered_set<std::string> archived;
  for (const ArchivedJob& row : *rows) archived.insert(row.record.job.id.text);
  std::size_t count = 0;
  for (const auto& file : lines_files_in(folder.batches())) {
    const auto first = parse_number<std::uint64_t>(file.stem().string());
    const auto batch = first ? read_batch(file) : std::nullopt;
    if (!batch || is_known(*batch, scheduler, archived)) continue;
    const auto place = folder.inbox() / fmt::format("0-{:020}.jsonl", *first);
    if (::rename(file.c_str(), place.c_str()) != 0)
      return Error{Error::Kind::failed, fmt::format("cannot write {}: {}", place.string(), system_reason()),
                   "muster queue repair again"};
    ++count;
  }
  return count;
}

}  // namespace

Error with_way_out(Error error) {
  error.remedy =
      "muster queue repair: it keeps what precedes the damage and a copy of all, and runs nothing again that began";
  return error;
}

Result<Repair> repair_journal(const StateFolder& folder) {
  const auto lock = try_to_lock_file(folder.conductor_lock());
  if (!lock) return lock.error();
  if (!*lock)
    return Error{Error::Kind::refused, "the queue's conductor runs, so that its journal can be read",
                 "muster queue shows the jobs"};
  const auto text = read_file(folder.journal());
  if (!text) return text.error();
  const Reading reading = read_as_far_as_possible(*text);
  Repair repair;
  repair.kept = reading.lines;
  repair.dropped = static_cast<std::size_t>(std::ranges::count(*text, '\n')) - reading.lines;
  if (repair.dropped > 0) {
    repair.damaged = unused_name(folder.journal());
    if (auto written = write_file_atomically(repair.damaged, *text); !written) return written.error();
  }
  // First what the shorter journal will not know: if killed in between, the repair is repeated.
  const auto handed_in = hand_in_again(folder, reading.scheduler);
  if (!handed_in) return handed_in.error();
  repair.handed_in = *handed_in;
  if (repair.dropped > 0)
    if (auto written = write_file_atomically(folder.journal(), std::string_view(*text).substr(0, reading.bytes));
        !written)
      return written.error();
  return repair;
}

}  // namespace muster::queue
