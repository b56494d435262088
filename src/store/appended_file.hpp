// A file that only grows, by whole records: whoever is killed leaves at most one torn record, at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::store {

// One process writes it at a time; the run's lock sees to that.
class AppendedFile {
 public:
  // A new file; refused where there is one.
  static Result<AppendedFile> create(const std::filesystem::path& path);
  // A file of lines, made where it is missing. A last line that lacks its newline is cut off.
  static Result<AppendedFile> open_lines(const std::filesystem::path& path);

  // One write(). A disk that cannot take all of it gets none of it.
  Result<void> append(std::string_view record);
  // Puts record in the place of everything from offset on, by one write(); it must not be shorter than that. Where it
  // fails, what was there stays.
  Result<void> replace_from(std::uint64_t offset, std::string_view record);
  // What was written is on the disk when this returns.
  Result<void> flush() const;

  std::uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  AppendedFile(FileDescriptor file, std::filesystem::path path, std::uint64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}
  Error cannot_write() const;

  FileDescriptor file_;
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
};

}  // namespace muster::store
