// Settled jobs that have left the journal: archive.jsonl, one line each. Only the conductor writes it. A job that
// was archived twice, because the conductor was killed between archive and journal, counts once.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.hpp"
#include "queue/state_folder.hpp"
#include "schedule/scheduler.hpp"

namespace muster::queue {

struct ArchivedJob {
  schedule::JobRecord record;  // as a schedule::Snapshot keeps it
  std::vector<std::string> command;
  bool operator==(const ArchivedJob&) const = default;
};

// Without the newline.
std::string to_line(const ArchivedJob& job);
Result<ArchivedJob> read_archived(std::string_view line, std::string_view source);

// Durable when this returns.
Result<void> add_to_archive(const StateFolder& folder, std::span<const ArchivedJob> jobs);
// All of them, by number. A damaged line is left out.
Result<std::vector<ArchivedJob>> read_archive(const StateFolder& folder);
// Removes jobs from it for good; durable when this returns.
Result<void> remove_from_archive(const StateFolder& folder, const std::unordered_set<std::string>& ids);

// Settled jobs that no job waits for, except those settled last: this many are kept.
std::unordered_set<schedule::JobIndex> jobs_to_archive(const schedule::Scheduler& scheduler, std::size_t kept);

// Where a job is in the archive: this many bytes from there on, without the newline.
struct ArchivePlace {
  std::size_t offset = 0, length = 0;
};
Result<ArchivedJob> read_archived_at(const StateFolder& folder, const ArchivePlace& place);

// Finds jobs in the archive.
class ArchiveIndex {
 public:
  virtual ~ArchiveIndex() = default;
  // Those of them that exist, in any order.
  virtual Result<std::vector<ArchivedJob>> find(const std::unordered_set<std::string>& ids) = 0;
  virtual Result<std::size_t> count() = 0;
};

// One that reads the whole archive at every call.
class ScannedArchive : public ArchiveIndex {
 public:
  explicit ScannedArchive(StateFolder folder) : folder_(std::move(folder)) {}
  Result<std::vector<ArchivedJob>> find(const std::unordered_set<std::string>& ids) override;
  Result<std::size_t> count() override;

 private:
  StateFolder folder_;
};

// Every whole line of the archive's text from an offset on, with its place and the id it begins with.
void for_each_line(std::string_view text, std::size_t offset,
                   const std::function<void(std::string_view id, const ArchivePlace& place)>& visit);

}  // namespace muster::queue
