// A file's bytes as memory, without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "system/regular_file.hpp"

namespace muster::checkpoint {

// Pages come from the system's cache as they are touched. Touching a page that the file has lost since (someone cut it
// off) ends the process by a signal: a caller that maps a file trusts that nobody rewrites it in place meanwhile.
class MappedFile {
 public:
  // Refused where the file has changed its size since it was opened.
  static Result<MappedFile> map(const RegularFile& file);
  MappedFile(MappedFile&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(start_), size_}; }
  // These bytes are not needed any more: whole pages of them no longer count as this process's memory. Touching them
  // again is allowed, and brings them back.
  void release(std::uint64_t begin, std::uint64_t end) const;

 private:
  MappedFile(void* start, std::size_t size) : start_(start), size_(size) {}

  void* start_;
  std::size_t size_;
};

}  // namespace muster::checkpoint
