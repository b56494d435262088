// How much space a disk has left, and waiting for a full one.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "base/byte_count.hpp"
#include "base/result.hpp"

namespace muster {

// Bytes that this user can still write at path, which need not exist yet: its nearest existing parent counts. Nothing
// if the file system does not say. A quota is not included: that shows only when a write fails.
std::optional<ByteCount> free_space(const std::filesystem::path& path);

// Whether this error number means that the disk, or the user's share of it, is full.
bool is_disk_full(int error_number);

// A disk is often full only for a moment. One wait: it begins with the first failure, and may span several tries.
class DiskWait {
 public:
  // on_waiting: called once, when the wait begins.
  explicit DiskWait(std::chrono::milliseconds patience, std::function<void(const std::string&)> on_waiting = {})
      : patience_(patience), on_waiting_(std::move(on_waiting)) {}

  // Pauses before the next try. False: the patience is used up, or a stop was requested. what: for the user, what needs
  // the space: "runs/a/metrics.csv".
  bool pause(const std::string& what, const std::stop_token& stop = {});

  // Returns when this many bytes are free at path. Refused, with both numbers, if they are not in time.
  Result<void> until_free(const std::filesystem::path& path, ByteCount needed, const std::string& what,
                          const std::stop_token& stop = {});

 private:
  std::chrono::milliseconds patience_;
  std::function<void(const std::string&)> on_waiting_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;  // since the first pause
};

}  // namespace muster
