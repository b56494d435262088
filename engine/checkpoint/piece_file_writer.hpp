// One rank's file of a training checkpoint onto the disk.
#pragma once

#include <atomic>
#include <filesystem>
#include <stop_token>

#include "checkpoint/host_copy.hpp"
#include "checkpoint/piece_file.hpp"

namespace muster::checkpoint {

// The file has its name only when all of it is on the disk. Returns its bytes. Given up between two writes when asked
// to stop. written: bytes so far, for observers.
Result<std::uint64_t> write_piece_file(const std::filesystem::path& path, const SaveIdentity& identity,
                                       const HostCopy& copy, const std::stop_token& stop,
                                       std::atomic<std::uint64_t>& written);

}  // namespace muster::checkpoint
