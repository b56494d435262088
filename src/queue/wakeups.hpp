// What wakes the conductor: requests that appear in the inbox, and processes that end.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::queue {

class Wakeups {
 public:
  using Token = std::uint64_t;  // of a watched process; above 0

  static Result<Wakeups> watching(const std::filesystem::path& inbox);

  // Reported once the process has ended; until the handle is closed.
  bool watch(const FileDescriptor& process, Token token) const;
  // Waits at most this long. Returns the processes that have ended.
  std::vector<Token> wait(std::chrono::milliseconds pause) const;

 private:
  FileDescriptor events_, inbox_;
};

}  // namespace muster::queue
