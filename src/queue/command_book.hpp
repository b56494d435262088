// The commands of the jobs that are not settled, from the batches that were taken.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "queue/request.hpp"
#include "queue/state_folder.hpp"

namespace muster::queue {

struct BookedCommand {
  std::shared_ptr<const Batch> batch;
  std::size_t position = 0;
  const QueuedJob& queued() const { return batch->jobs[position]; }
};

class CommandBook {
 public:
  // The jobs of a batch that are open.
  void add(Batch batch, const std::function<bool(const schedule::JobId&)>& is_open);
  const BookedCommand* find(const schedule::JobId& id) const;
  void remove(const schedule::JobId& id) { commands_.erase(id.text); }

 private:
  std::unordered_map<std::string, BookedCommand> commands_;
};

// The batches that were taken, as files. They are named by the number of their first job, and their jobs have the
// numbers that follow it.
class BatchFiles {
 public:
  explicit BatchFiles(std::filesystem::path folder);

  // The batch with this job; nothing if there is none, or its file cannot be read.
  const Batch* holding(const schedule::JobId& id);
  std::vector<std::string> command_of(const schedule::JobId& id);
  // Those that were read.
  const std::map<std::filesystem::path, std::optional<Batch>>& read() const { return batches_; }

 private:
  std::map<std::uint64_t, std::filesystem::path> files_;  // by the number of the first job
  std::map<std::filesystem::path, std::optional<Batch>> batches_;
};

// Nothing if it cannot be read or holds no batch.
std::optional<Batch> read_batch(const std::filesystem::path& file);

}  // namespace muster::queue
