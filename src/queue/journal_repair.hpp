// A journal that was damaged on the disk, and how a queue continues from what is left of it.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/result.hpp"
#include "queue/state_folder.hpp"

namespace muster::queue {

// The error for a journal that cannot be read, with the way out as its remedy.
Error with_way_out(Error error);

struct Repair {
  std::size_t kept = 0, dropped = 0;  // lines
  std::size_t handed_in = 0;          // batches whose jobs the kept lines do not know: submitted again
  std::filesystem::path damaged;      // the journal as it was; empty: nothing was wrong with it
};

// Keeps the lines before the first that is unreadable or impossible, and resubmits what they do not contain.
// Nothing that began is run again: how attempts went is in their own files. Refused while a conductor runs.
Result<Repair> repair_journal(const StateFolder& folder);

}  // namespace muster::queue
