// The commands of queued jobs, looked up one by one: only the request that submitted a job is read.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>

#include "queue/state_folder.hpp"

namespace muster::monitor {

class JobCommands {
 public:
  explicit JobCommands(queue::StateFolder folder) : folder_(std::move(folder)) {}

  // Empty if it is not known.
  const std::string& find(const std::string& id);
  // Forgets those of other jobs.
  void keep(const std::function<bool(const std::string& id)>& is_known);

 private:
  void list_batches();
  void read_batch(std::uint64_t first);

  queue::StateFolder folder_;
  std::set<std::uint64_t> batches_;  // by their first jobs
  std::unordered_map<std::string, std::string> commands_;
  std::unordered_map<std::string, int> misses_;
};

}  // namespace muster::monitor
