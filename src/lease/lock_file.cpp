#include "lease/lock_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "lease/system_failure.hpp"

namespace muster::lease {
namespace {

using Clock = std::chrono::steady_clock;

// O_NONBLOCK: a pipe in the file's place must not stop us.
constexpr int open_safely = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

int try_flock(const FileDescriptor& file, int operation) {
  while (::flock(file.number(), operation | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

FileDescriptor open_at(const FileDescriptor& folder, const std::string& name, int flags, mode_t mode = 0) {
  while (true) {
    const int number = ::openat(folder.number(), name.c_str(), flags | open_safely, mode);
    if (number >= 0 || errno != EINTR) return FileDescriptor(number);
  }
}

// A file with a second name may be anything of somebody's, put here to be overwritten or opened to all.
Result<void> check_file(const FileDescriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return system_failure("look at", path, errno);
  if (!S_ISREG(status.st_mode)) return Error{Error::Kind::failed, path.string() + " is not a plain file", "remove it"};
  if (status.st_nlink > 1)
    return Error{Error::Kind::failed, fmt::format("{} has {} names, and a lock file has one", path.string(), status.st_nlink),
                 fmt::format("find the others with find / -xdev -inum {}, or remove it", status.st_ino)};
  return {};
}

// Its maker may have been killed before it could open the file to all; the owner finishes that.
void open_to_all_users(const FileDescriptor& file) {
  struct stat status {};
  if (::fstat(file.number(), &status) != 0 || status.st_uid != ::geteuid()) return;
  if ((status.st_mode & 0777) != 0666) ::fchmod(file.number(), 0666);
}

// Note [Opening in a sticky folder]
// Where fs.protected_regular is set, O_CREAT on another user's file in a sticky folder fails although the file may be
// opened. So the file is opened without O_CREAT first, and O_EXCL tells who creates it. Until the creator has widened
// the mode that the umask narrowed, another user sees EACCES: hence the few tries.
Result<FileDescriptor> open_or_create(const FolderView& folder, const std::string& name) {
  constexpr int tries = 20;
  const std::filesystem::path path = folder.path / name;
  int reason = 0;
  for (int attempt = 0; attempt < tries; ++attempt) {
    FileDescriptor file = open_at(folder.descriptor, name, O_RDWR);
    if (!file && (errno == EACCES || errno == EPERM || errno == EROFS))
      file = open_at(folder.descriptor, name, O_RDONLY);  // enough to lock, though not to leave a record
    if (file) {
      if (auto checked = check_file(file, path); !checked) return checked.error();
      open_to_all_users(file);
      return file;
    }
    reason = errno;
    if (reason == ENOENT) {
      file = open_at(folder.descriptor, name, O_RDWR | O_CREAT | O_EXCL, 0666);
      if (file) {
        open_to_all_users(file);
        return file;
      }
      if (errno != EEXIST) return system_failure("create", path, errno);
      continue;
    }
    if (reason != EACCES) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return system_failure("open", path, reason);
}

// A lock on a file that someone has deleted excludes nobody.
bool leads_to(const FolderView& folder, const std::string& name, const FileDescriptor& file) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file.number(), &opened) == 0 &&
         ::fstatat(folder.descriptor.number(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

Result<bool> lock_within(const FileDescriptor& file, std::chrono::milliseconds patience,
                         const std::filesystem::path& path) {
  constexpr std::chrono::microseconds longest_pause = std::chrono::milliseconds(4);
  const auto end = Clock::now() + patience;
  std::chrono::microseconds pause(20);
  while (true) {
    const int reason = try_flock(file, LOCK_EX);
    if (reason == 0) return true;
    if (reason != EWOULDBLOCK) return system_failure("lock", path, reason);
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longest_pause);
  }
}

Result<std::optional<FileDescriptor>> take_lock(const FolderView& folder, const std::string& name,
                                                std::chrono::milliseconds patience) {
  constexpr int tries = 20;
  const std::filesystem::path path = folder.path / name;
  for (int attempt = 0; attempt < tries; ++attempt) {
    auto file = open_or_create(folder, name);
    if (!file) return file.error();
    const auto locked = lock_within(*file, patience, path);
    if (!locked) return locked.error();
    if (!*locked) return std::optional<FileDescriptor>();
    if (leads_to(folder, name, *file)) return std::optional<FileDescriptor>(std::move(*file));
  }
  return Error{Error::Kind::failed, path.string() + " is deleted again and again while it is being locked",
               "stop what cleans that folder: lock files are small and stay"};
}

FileDescriptor open_to_look(const FileDescriptor& folder, const std::string& name) {
  return open_at(folder, name, O_RDONLY);
}

bool is_locked(const FileDescriptor& file) {
  if (try_flock(file, LOCK_SH) != 0) return true;
  unlock(file);
  return false;
}

void unlock(const FileDescriptor& file) { ::flock(file.number(), LOCK_UN); }

}  // namespace muster::lease
