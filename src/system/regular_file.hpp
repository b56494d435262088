// Parts of a file on disk, read in place: for files that are far larger than what is needed from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster {

class RegularFile {
 public:
  // Refused: files that are missing, unreadable, or not regular (a folder, a pipe, a device).
  static Result<RegularFile> open(const std::filesystem::path& path);

  std::uint64_t size() const { return size_; }
  // length bytes from the start of the file, or as many as there are.
  Result<std::string> beginning(std::uint64_t length) const;
  // Fills out with the bytes from offset on. A file that ends before out is full has shrunk, and is an error. Safe in
  // several threads.
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> out) const;
  const std::filesystem::path& path() const { return path_; }
  // Its size now, which may differ from when it was opened.
  Result<std::uint64_t> current_size() const;
  int descriptor() const { return file_.number(); }

 private:
  RegularFile(FileDescriptor file, std::filesystem::path path, std::uint64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}

  FileDescriptor file_;
  std::filesystem::path path_;
  std::uint64_t size_;
};

}  // namespace muster
