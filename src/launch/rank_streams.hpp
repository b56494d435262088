// The standard output and error of ranks: opens what each writes to, and lets the pump follow it.
#pragma once

#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "launch/keeper/keeper.hpp"
#include "launch/log_folder.hpp"
#include "launch/log_pump.hpp"

namespace muster::launch {

// Held until the ranks have started: the launcher's copies of what they write to.
struct RankStreams {
  std::vector<FileDescriptor> opened;
  // By local rank: the descriptors for WorkerCommand.
  std::vector<std::pair<int, int>> output_and_errors;
};

// prefixes: by local rank.
Result<RankStreams> open_rank_streams(const AttemptLogs& logs, const LogOptions& options,
                                      const std::vector<std::string>& prefixes, LogPump& pump);

}  // namespace muster::launch
