// Stream sockets with a place in the file system: any process that may enter the folder may connect.
#pragma once

#include <filesystem>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::wire {

// A new folder that only this user may enter, among the temporary files, with a path short enough for a socket in it.
// Removed with everything in it.
class PrivateFolder {
 public:
  static Result<PrivateFolder> create();
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&& other) noexcept;
  ~PrivateFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit PrivateFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;  // empty: moved from
};

// Close-on-exec and non-blocking.
Result<FileDescriptor> listen_at(const std::filesystem::path& path);
// Close-on-exec and blocking.
Result<FileDescriptor> connect_at(const std::filesystem::path& path);

}  // namespace muster::wire
