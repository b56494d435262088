// The memory of this machine, and what may be taken of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/byte_count.hpp"

namespace muster::host {

struct MemoryFacts {
  std::optional<ByteCount> available;         // on the machine
  std::optional<ByteCount> group_available;   // below the limit of this process's control group; absent: no limit
  std::optional<ByteCount> shared_file_size;  // of /dev/shm; absent: it does not exist
};

MemoryFacts probe_memory(const std::filesystem::path& proc, const std::filesystem::path& sys,
                         const std::filesystem::path& dev);

// Bytes that programs may still take of this machine's memory; absent: the system does not say.
std::optional<std::int64_t> free_host_memory();

// Bytes that this process may still take: what is free, or what its control group leaves of it.
std::optional<std::int64_t> host_memory_of_this_process();

}  // namespace muster::host
