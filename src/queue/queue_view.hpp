// The queue as its files show it, for commands that only look: the conductor is not asked.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "queue/request.hpp"
#include "queue/state_folder.hpp"
#include "schedule/scheduler.hpp"

namespace muster::queue {

class QueueView {
 public:
  explicit QueueView(StateFolder folder) : folder_(std::move(folder)) {}

  // Reads what was written since the last time.
  Result<void> refresh();

  const schedule::Scheduler& scheduler() const { return scheduler_; }
  // Jobs that the last refresh() found settled, and the one before had not, unless they have left the journal already.
  const std::vector<schedule::JobId>& newly_settled() const { return newly_settled_; }

  // The same, and the batches in the inbox: submitted, but not taken by a conductor yet. The inbox is read first,
  // so that a batch taken in the meantime is in the journal: nothing that was submitted before is missed.
  Result<std::vector<Batch>> refresh_with_inbox();
  // Why the batch with this job could not be accepted.
  std::optional<std::string> refusal(const schedule::JobId& id) const;

 private:
  Result<void> read_on();
  void note_settled_in(const schedule::Scheduler& before);

  StateFolder folder_;
  schedule::Scheduler scheduler_;
  FileDescriptor journal_;  // kept open: a journal that replaced it is recognised as another file
  std::size_t read_ = 0;    // bytes of it
  std::vector<schedule::JobId> newly_settled_;
};

}  // namespace muster::queue
