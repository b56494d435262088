// Where jobs stand in the queue's archive. The index lies beside it, may be deleted at any time, and is made again.
#pragma once

#include <memory>

#include "queue/archive.hpp"
#include "queue/state_folder.hpp"

namespace muster::queue {

std::unique_ptr<ArchiveIndex> open_archive_index(const StateFolder& folder);

}  // namespace muster::queue
