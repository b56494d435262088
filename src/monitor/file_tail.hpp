// The end of a file that is being written. Checking whether it has changed costs one system call.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace muster::monitor {

// Whether a file or folder has changed, according to the file system.
class ChangeMark {
 public:
  // Since the last call; the first time, whether it exists. Two changes in one tick of the file system's clock may
  // look like one.
  bool has_changed(const std::filesystem::path& path);
  // 0 if it does not exist, or is a folder.
  std::uint64_t size() const { return size_; }

 private:
  ino_t file_ = 0;
  std::uint64_t size_ = 0;
  std::int64_t changed_ = 0;  // ns
};

class FileTail {
 public:
  explicit FileTail(std::filesystem::path path, std::size_t most_bytes = 4096)
      : path_(std::move(path)), most_bytes_(most_bytes) {}

  const std::filesystem::path& path() const { return path_; }
  // Reads the end again if the file has changed since the last time, and returns whether it did. A missing file
  // counts as empty; only regular files are opened.
  bool refresh();
  // The last lines, oldest first, as they would be seen (base/cell_text.hpp); at most this many. Empty ones at the end
  // are left out.
  std::vector<std::string> lines(std::size_t most) const;

 private:
  std::filesystem::path path_;
  std::size_t most_bytes_;
  ChangeMark mark_;
  std::string text_;
};

}  // namespace muster::monitor
