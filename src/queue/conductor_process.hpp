// The conductor as a separate process, which no terminal and no shell ends.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "queue/state_folder.hpp"

namespace muster::queue {

// Starts one unless one runs: this very program with these arguments, which must end in be_conductor(). A separate
// program, since what this process has opened (the GPUs' driver) does not work in a mere fork. To be called by a
// process without threads.
Result<void> ensure_conductor(const StateFolder& folder, const std::vector<std::string>& arguments,
                              const std::vector<std::pair<std::string, std::string>>& environment_changes);

// This process detaches from everything it came from and becomes the conductor, unless one runs. conduct is called with
// the conductor's lock; its result is the exit status.
int be_conductor(const StateFolder& folder, const std::function<int(FileDescriptor lock)>& conduct);

bool conductor_runs(const StateFolder& folder);

}  // namespace muster::queue
