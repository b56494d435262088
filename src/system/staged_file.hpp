// A file that appears under its name at once and whole, or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster {

// Written piece by piece next to its place, flushed and renamed by commit(). Without commit() it is removed. A file
// that is not regular (a pipe, /dev/null) is written to directly.
class StagedFile {
 public:
  static Result<StagedFile> create(const std::filesystem::path& place);
  StagedFile(StagedFile&& other) noexcept;
  StagedFile& operator=(StagedFile&&) = delete;
  ~StagedFile();

  Result<void> write(std::string_view text);
  Result<void> commit();

 private:
  StagedFile(std::filesystem::path place, std::filesystem::path path, FileDescriptor file)
      : place_(std::move(place)), path_(std::move(path)), file_(std::move(file)) {}
  Error cannot_write() const;

  std::filesystem::path place_, path_;  // path_ is empty if there is nothing to rename or remove
  FileDescriptor file_;
};

}  // namespace muster
