#include "system/staged_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>
#include <vector>

#include "system/files.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

Error cannot_make(const fs::path& place, const std::string& reason) {
  return {Error::Kind::failed, fmt::format("cannot make {}: {}", place.string(), reason),
          "check free space and permissions of the folder above it"};
}

Error already_there(const fs::path& place) {
  return {Error::Kind::bad_input, fmt::format("{} is already there", place.string()),
          "name another folder, or remove it"};
}

FileDescriptor open_folder(const fs::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool lock(const FileDescriptor& folder) { return ::flock(folder.number(), LOCK_EX | LOCK_NB) == 0; }

std::string staging_prefix(const fs::path& place) { return fmt::format(".{}.part-", place.filename().string()); }

// Staging folders of the same place that no process holds any longer.
void remove_abandoned(const fs::path& place) {
  const std::string prefix = staging_prefix(place);
  std::vector<fs::path> found;
  std::error_code failure;
  for (fs::directory_iterator entry(place.parent_path(), failure), end; !failure && entry != end;
       entry.increment(failure))
    if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path());
  for (const fs::path& path : found) {
    const FileDescriptor folder = open_folder(path);
    if (folder && lock(folder)) fs::remove_all(path, failure);
  }
}

bool is_removed(const FileDescriptor& folder) {
  struct stat facts = {};
  return ::fstat(folder.number(), &facts) == 0 && facts.st_nlink == 0;
}

// The user's permissions for folders. Read, and not set for an instant as umask() would: other threads create files.
mode_t usual_mode() {
  constexpr mode_t where_unknown = 0755;
  const auto status = read_file("/proc/self/status");
  const auto line = status ? status->find("\nUmask:") : std::string::npos;
  if (line == std::string::npos) return where_unknown;
  return 0777U & ~static_cast<mode_t>(std::strtoul(status->c_str() + line + 7, nullptr, 8));
}

bool flush(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file && ::fsync(file.number()) == 0;
}

}  // namespace

Result<StagedFolder> StagedFolder::create(const fs::path& place) {
  std::error_code failure;
  fs::path whole = fs::absolute(place, failure).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "folder/"
  if (whole.filename().empty()) return cannot_make(place, "it has no name");
  if (fs::symlink_status(whole, failure).type() != fs::file_type::not_found) return already_there(place);
  fs::create_directories(whole.parent_path(), failure);
  if (failure) return cannot_make(place, failure.message());
  remove_abandoned(whole);
  while (true) {
    std::string pattern = (whole.parent_path() / (staging_prefix(whole) + "XXXXXX")).string();
    if (::mkdtemp(pattern.data()) == nullptr) return cannot_make(place, system_reason());
    FileDescriptor held = open_folder(pattern);
    const bool locked = held && lock(held);
    // Before it was locked, another process that stages the same place may have considered it abandoned.
    if (locked ? is_removed(held) : errno == (held ? EWOULDBLOCK : ENOENT)) continue;
    if (locked && ::chmod(pattern.c_str(), usual_mode()) == 0) return StagedFolder(std::move(whole), pattern, std::move(held));
    const Error error = cannot_make(place, system_reason());
    ::rmdir(pattern.c_str());
    return error;
  }
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : place_(std::move(other.place_)), path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<void> StagedFolder::write(std::string_view file_name, std::string_view text) const {
  return write_file_atomically(path_ / file_name, text);
}

Result<void> StagedFolder::commit() {
  std::error_code failure;
  for (fs::recursive_directory_iterator entry(path_, failure), end; !failure && entry != end; entry.increment(failure))
    if (!entry->is_symlink(failure) && !flush(entry->path())) return cannot_make(place_, system_reason());
  if (failure) return cannot_make(place_, failure.message());
  if (!flush(path_)) return cannot_make(place_, system_reason());
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, place_.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) return already_there(place_);
    // A file system without that call: a rename only replaces an empty folder.
    if (errno != EINVAL && errno != ENOSYS) return cannot_make(place_, system_reason());
    if (::rename(path_.c_str(), place_.c_str()) != 0) return cannot_make(place_, system_reason());
  }
  path_.clear();
  flush(place_.parent_path());
  return {};
}

}  // namespace muster
