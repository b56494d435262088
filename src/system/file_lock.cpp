#include "system/file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>

#include "system/files.hpp"

namespace muster {
namespace {

Error cannot(const char* what, const std::filesystem::path& path) {
  return {Error::Kind::failed, fmt::format("cannot {} {}: {}", what, path.string(), system_reason()),
          "check the folder's permissions and free space"};
}

Result<bool> lock(const FileDescriptor& file, const std::filesystem::path& path, int operation) {
  while (::flock(file.number(), operation) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return cannot("lock", path);
  }
  return true;
}

Result<FileDescriptor> open_and_lock(const std::filesystem::path& path, int operation) {
  FileDescriptor file =
      above_standard_streams(FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)));
  if (!file) return cannot("open", path);
  const auto locked = lock(file, path, operation);
  if (!locked) return locked.error();
  return *locked ? std::move(file) : FileDescriptor();
}

}  // namespace

Result<FileDescriptor> lock_file(const std::filesystem::path& path) { return open_and_lock(path, LOCK_EX); }

Result<FileDescriptor> try_to_lock_file(const std::filesystem::path& path) {
  return open_and_lock(path, LOCK_EX | LOCK_NB);
}

Result<bool> try_to_lock(const FileDescriptor& file, const std::filesystem::path& path) {
  return lock(file, path, LOCK_EX | LOCK_NB);
}

LockState lock_state(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return errno == ENOENT || errno == ENOTDIR ? LockState::missing : LockState::unknown;
  if (::flock(file.number(), LOCK_SH | LOCK_NB) == 0) return LockState::open;
  return errno == EWOULDBLOCK ? LockState::locked : LockState::unknown;
}

}  // namespace muster
