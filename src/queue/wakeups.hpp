// What wakes the conductor: requests that appear in the inbox, and processes that end.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::queue {

class Wakeups {
 public:
  using Token = std::uint64_t;  // of a process that is watched; above 0

  static Result<Wakeups> watching(const std::filesystem::path& inbox);

  // Told of once the process has ended; until the handle is closed.
  bool watch(const FileDescriptor& process, Token token) const;
  // At most so long. The processes that have ended.
  std::vector<Token> wait(std::chrono::milliseconds pause) const;

 private:
  FileDescriptor events_, inbox_;
};

}  // namespace muster::queue
