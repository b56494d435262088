#include "base/regular_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files.hpp"

namespace muster {
namespace {

Error cannot_read(const std::filesystem::path& path, const std::string& reason) {
  return {Error::Kind::bad_input, fmt::format("cannot read {}: {}", path.string(), reason),
          "check the path and its permissions"};
}

}  // namespace

Result<RegularFile> RegularFile::open(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // opening a pipe must not wait
  if (!file) return cannot_read(path, system_reason());
  struct stat facts {};
  if (::fstat(file.number(), &facts) != 0) return cannot_read(path, system_reason());
  if (!S_ISREG(facts.st_mode)) return cannot_read(path, "it is no regular file");
  return RegularFile(std::move(file), path, static_cast<std::uint64_t>(facts.st_size));
}

Result<std::string> RegularFile::beginning(std::uint64_t length) const {
  std::string bytes(static_cast<std::size_t>(std::min(length, size_)), '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::pread(file_.number(), bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path_, system_reason());
    if (got == 0) break;  // it shrank meanwhile
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

}  // namespace muster
