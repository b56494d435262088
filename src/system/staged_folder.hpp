// A folder that appears under its name at once and whole, or not at all.
#pragma once

#include <filesystem>
#include <string_view>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster {

// Filled under a hidden name next to its place, flushed and renamed by commit(). Without commit() it is removed; what a
// killed process left behind is removed by the next one that stages the same place.
class StagedFolder {
 public:
  // place must not exist; the folders above it are created if they are missing.
  static Result<StagedFolder> create(const std::filesystem::path& place);
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;
  ~StagedFolder();

  // Where the files go until commit().
  const std::filesystem::path& path() const { return path_; }
  Result<void> write(std::string_view file_name, std::string_view text) const;
  // Every file on the disk, then the name. Refused if something of that name appeared in the meantime.
  Result<void> commit();

 private:
  StagedFolder(std::filesystem::path place, std::filesystem::path path, FileDescriptor lock)
      : place_(std::move(place)), path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path place_, path_;  // path_ is empty once there is nothing left to remove
  FileDescriptor lock_;                 // on path_ itself, as long as this process fills it
};

}  // namespace muster
