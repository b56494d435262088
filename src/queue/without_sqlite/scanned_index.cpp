#include "queue/archive_index.hpp"

namespace muster::queue {

std::unique_ptr<ArchiveIndex> open_archive_index(const StateFolder& folder) {
  return std::make_unique<ScannedArchive>(folder);
}

}  // namespace muster::queue
