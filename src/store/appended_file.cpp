#include "store/appended_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <string>

#include "system/disk_space.hpp"
#include "system/files.hpp"

namespace muster::store {
namespace {

Error cannot_open(const std::filesystem::path& path) {
  return {Error::Kind::failed, fmt::format("cannot write {}: {}", path.string(), system_reason()),
          "check free space and permissions of the folder"};
}

// The bytes up to and including the last newline. Nothing, with the reason in errno, if the file cannot be read.
std::optional<std::uint64_t> whole_lines(int file, std::uint64_t size) {
  std::array<char, 65536> block;
  std::uint64_t end = size;
  while (end > 0) {
    const std::uint64_t length = std::min<std::uint64_t>(block.size(), end);
    const ssize_t got = ::pread(file, block.data(), length, static_cast<off_t>(end - length));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    const std::string_view seen(block.data(), static_cast<std::size_t>(got));
    if (const auto newline = seen.rfind('\n'); newline != std::string_view::npos) return end - length + newline + 1;
    end -= length;
  }
  return 0;
}

}  // namespace

Result<AppendedFile> AppendedFile::create(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return cannot_open(path);
  return AppendedFile(std::move(file), path, 0);
}

Result<AppendedFile> AppendedFile::open_lines(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!file) return cannot_open(path);
  struct stat facts = {};
  if (::fstat(file.number(), &facts) != 0) return cannot_open(path);
  if (!S_ISREG(facts.st_mode))
    return Error{Error::Kind::bad_input, fmt::format("{} is not a regular file", path.string()), "move it away"};
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  const auto whole = whole_lines(file.number(), size);
  if (!whole || (*whole < size && ::ftruncate(file.number(), static_cast<off_t>(*whole)) != 0))
    return cannot_open(path);
  return AppendedFile(std::move(file), path, *whole);
}

Error AppendedFile::cannot_write() const {
  return {Error::Kind::failed, fmt::format("cannot write {}: {}", path_.string(), system_reason()),
          is_disk_full(errno) ? "free space on that disk; then --resume auto continues the run" : ""};
}

Result<void> AppendedFile::append(std::string_view record) { return replace_from(size_, record); }

Result<void> AppendedFile::replace_from(std::uint64_t offset, std::string_view record) {
  if (offset > size_ || offset + record.size() < size_) throw std::logic_error("a record may not shorten its file");
  DiskWait wait(full_.patience, full_.on_waiting);
  while (!put(offset, record)) {
    const bool full = is_disk_full(errno);
    const Error error = cannot_write();
    if (full && wait.pause(error.what)) continue;
    if (full) full_.patience = {};  // later writes would fail the same way
    return error;
  }
  return {};
}

bool AppendedFile::put(std::uint64_t offset, std::string_view record) {
  std::string before(size_ - offset, '\0');
  if (::pread(file_.number(), before.data(), before.size(), static_cast<off_t>(offset)) !=
      static_cast<ssize_t>(before.size()))
    return false;
  std::size_t written = 0;
  while (written < record.size()) {
    const ssize_t put = ::pwrite(file_.number(), record.data() + written, record.size() - written,
                                 static_cast<off_t>(offset + written));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const int reason = errno;
      // What was there already has its space. If even that fails, nothing more can be done.
      static_cast<void>(!::pwrite(file_.number(), before.data(), before.size(), static_cast<off_t>(offset)));
      static_cast<void>(!::ftruncate(file_.number(), static_cast<off_t>(size_)));
      errno = reason;
      return false;
    }
    written += static_cast<std::size_t>(put);
  }
  size_ = offset + record.size();
  return true;
}

Result<void> AppendedFile::move_to(const std::filesystem::path& path) {
  if (::rename(path_.c_str(), path.c_str()) != 0) return cannot_open(path);
  path_ = path;
  return {};
}

Result<void> AppendedFile::flush() const {
  if (::fdatasync(file_.number()) != 0) return cannot_write();
  return {};
}

}  // namespace muster::store
