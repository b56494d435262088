#include "monitor/job_commands.hpp"

#include <iterator>

#include "base/text.hpp"
#include "queue/command_book.hpp"

namespace muster::monitor {

void JobCommands::list_batches() {
  for (const auto& file : queue::lines_files_in(folder_.batches()))
    if (const auto first = parse_number<std::uint64_t>(file.stem().string())) batches_.insert(*first);
}

void JobCommands::read_batch(std::uint64_t first) {
  const auto batch = queue::read_batch(folder_.batches() / (std::to_string(first) + ".jsonl"));
  if (!batch) return;
  for (const queue::QueuedJob& queued : batch->jobs)
    commands_.emplace(queued.job.id.text, queue::spoken_command(queued.command));
}

void JobCommands::keep(const std::function<bool(const std::string& id)>& is_known) {
  std::erase_if(commands_, [&](const auto& entry) { return !is_known(entry.first); });
  std::erase_if(misses_, [&](const auto& entry) { return !is_known(entry.first); });
}

const std::string& JobCommands::find(const std::string& id) {
  static const std::string unknown;
  constexpr int most_misses = 5;  // a request may be on its way from one folder to another
  if (const auto known = commands_.find(id); known != commands_.end()) return known->second;
  const auto number = parse_number<std::uint64_t>(id);
  if (!number || misses_[id]++ >= most_misses) return unknown;
  if (batches_.empty() || *number > *batches_.rbegin() || misses_[id] > 1) list_batches();
  const auto above = batches_.upper_bound(*number);
  if (above != batches_.begin()) read_batch(*std::prev(above));
  const auto found = commands_.find(id);
  if (found == commands_.end()) return unknown;
  misses_.erase(id);
  return found->second;
}

}  // namespace muster::monitor
