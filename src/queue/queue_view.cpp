#include "queue/queue_view.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "system/files.hpp"
#include "base/text.hpp"
#include "queue/command_book.hpp"
#include "queue/journal_repair.hpp"
#include "schedule/journal.hpp"

namespace muster::queue {
namespace {

std::vector<Batch> batches_in(const std::filesystem::path& folder) {
  std::vector<Batch> batches;
  for (const auto& file : lines_files_in(folder))
    if (auto batch = read_batch(file)) batches.push_back(std::move(*batch));  // else it was taken in the meantime
  return batches;
}

bool holds(const Batch& batch, const schedule::JobId& id) {
  return std::ranges::any_of(batch.jobs, [&](const QueuedJob& queued) { return queued.job.id == id; });
}

Result<std::string> read_from(const FileDescriptor& file, const std::filesystem::path& path, std::size_t offset) {
  std::string text;
  char block[65536];
  while (true) {
    const ssize_t got = ::pread(file.number(), block, sizeof block, static_cast<off_t>(offset + text.size()));
    if (got < 0)
      return Error{Error::Kind::failed, fmt::format("cannot read {}: {}", path.string(), system_reason()), ""};
    if (got == 0) return text;
    text.append(block, static_cast<std::size_t>(got));
  }
}

bool is_same_file(const FileDescriptor& file, const std::filesystem::path& path) {
  struct stat open = {}, named = {};
  return ::fstat(file.number(), &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

}  // namespace

// A shortened journal is another file. The old one is read to its end first: its last events are not missed.
Result<void> QueueView::refresh() {
  newly_settled_.clear();
  if (journal_) {
    if (auto read = read_on(); !read) return read;
    if (is_same_file(journal_, folder_.journal())) return {};
  }
  FileDescriptor next(::open(folder_.journal().c_str(), O_RDONLY | O_CLOEXEC));
  if (!next) {
    if (errno == ENOENT) return {};  // nothing was ever submitted
    return Error{Error::Kind::failed, fmt::format("cannot read {}: {}", folder_.journal().string(), system_reason()),
                 "check its permissions"};
  }
  const schedule::Scheduler before = std::exchange(scheduler_, schedule::Scheduler());
  journal_ = std::move(next);
  read_ = 0;
  if (auto read = read_on(); !read) return read;
  note_settled_in(before);
  return {};
}

Result<void> QueueView::read_on() {
  const auto text = read_from(journal_, folder_.journal(), read_);
  if (!text) return text.error();
  const auto journal = schedule::read_journal(*text, folder_.journal().string());
  if (!journal) return with_way_out(journal.error());
  for (const schedule::Event& event : journal->events) {
    const auto decisions = scheduler_.apply(event);
    if (!decisions) return with_way_out(decisions.error());
    for (const schedule::Decision& decision : *decisions)
      if (const auto* settle = std::get_if<schedule::Settle>(&decision)) newly_settled_.push_back(settle->job);
  }
  read_ += journal->whole;
  return {};
}

// Jobs that a snapshot shows as settled were not decided by an event that was read here.
void QueueView::note_settled_in(const schedule::Scheduler& before) {
  for (const schedule::JobRecord& record : scheduler_.jobs().all()) {
    if (!is_settled(record.state)) continue;
    const auto known = before.jobs().find(record.job.id);
    if (!known || !is_settled(before.jobs().at(*known).state)) newly_settled_.push_back(record.job.id);
  }
}

Result<std::vector<Batch>> QueueView::refresh_with_inbox() {
  std::vector<Batch> batches = batches_in(folder_.inbox());
  if (auto read = refresh(); !read) return read.error();
  std::erase_if(batches,
                [&](const Batch& batch) { return scheduler_.jobs().find(batch.jobs.front().job.id).has_value(); });
  return batches;
}

std::optional<std::string> QueueView::refusal(const schedule::JobId& id) const {
  for (const Batch& batch : batches_in(folder_.refused())) {
    if (!holds(batch, id)) continue;
    const auto reason = read_file(folder_.refused() / (batch.jobs.front().job.id.text + ".txt"));
    return reason ? std::string(trim(*reason)) : "it could not be accepted";
  }
  return std::nullopt;
}

}  // namespace muster::queue
