// A file that only grows, by whole records: a writer that is killed leaves at most one torn record, at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::store {

// How long a write waits for space on a full disk. on_waiting is called once, when the wait begins.
struct FullDisk {
  std::chrono::milliseconds patience{0};
  std::function<void(const std::string&)> on_waiting = {};
};

// One process writes it at a time; the run's lock ensures that.
class AppendedFile {
 public:
  // A new file; refused if it exists.
  static Result<AppendedFile> create(const std::filesystem::path& path);
  // A file of lines, created if it is missing. A last line without its newline is cut off.
  static Result<AppendedFile> open_lines(const std::filesystem::path& path);

  // From now on a write waits when the disk is full; without this it fails at once.
  void wait_when_full(FullDisk full) { full_ = std::move(full); }
  // One write(). A disk that cannot take all of it gets none of it.
  Result<void> append(std::string_view record);
  // Replaces everything from offset on with record, by one write(); it must not be shorter than that. If it
  // fails, what was there stays.
  Result<void> replace_from(std::uint64_t offset, std::string_view record);
  // Renames it, replacing an existing file.
  Result<void> move_to(const std::filesystem::path& path);
  // What was written is on the disk when this returns.
  Result<void> flush() const;

  std::uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  AppendedFile(FileDescriptor file, std::filesystem::path path, std::uint64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}
  Error cannot_write() const;
  // False, with the reason in errno and the file as it was.
  bool put(std::uint64_t offset, std::string_view record);

  FileDescriptor file_;
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  FullDisk full_ = {};
};

}  // namespace muster::store
