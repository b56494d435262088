#include "system/regular_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "system/files.hpp"

namespace muster {
namespace {

Error cannot_read(const std::filesystem::path& path, const std::string& reason) {
  return {Error::Kind::bad_input, fmt::format("cannot read {}: {}", path.string(), reason),
          "check the path and its permissions"};
}

// As many bytes as there are from offset on, at most out's; nothing if reading failed.
std::optional<std::size_t> read_some(int file, std::uint64_t offset, std::span<std::byte> out) {
  std::size_t have = 0;
  while (have < out.size()) {
    const ssize_t got = ::pread(file, out.data() + have, out.size() - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  return have;
}

}  // namespace

Result<RegularFile> RegularFile::open(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // opening a pipe must not wait
  if (!file) return cannot_read(path, system_reason());
  struct stat facts {};
  if (::fstat(file.number(), &facts) != 0) return cannot_read(path, system_reason());
  if (!S_ISREG(facts.st_mode)) return cannot_read(path, "it is not a regular file");
  return RegularFile(std::move(file), path, static_cast<std::uint64_t>(facts.st_size));
}

Result<std::uint64_t> RegularFile::current_size() const {
  struct stat facts {};
  if (::fstat(file_.number(), &facts) != 0) return cannot_read(path_, system_reason());
  return static_cast<std::uint64_t>(facts.st_size);
}

Result<std::string> RegularFile::beginning(std::uint64_t length) const {
  std::string bytes(static_cast<std::size_t>(std::min(length, size_)), '\0');
  const auto have = read_some(file_.number(), 0, std::as_writable_bytes(std::span(bytes)));
  if (!have) return cannot_read(path_, system_reason());
  bytes.resize(*have);  // shorter if the file shrank in the meantime
  return bytes;
}

Result<void> RegularFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset)
    return cannot_read(path_, fmt::format("{} bytes from byte {} on are beyond its {}", out.size(), offset, size_));
  const auto have = read_some(file_.number(), offset, out);
  if (!have) return cannot_read(path_, system_reason());
  if (*have != out.size())
    return cannot_read(
        path_, fmt::format("it had {} bytes when it was opened, and now ends at byte {}", size_, offset + *have));
  return {};
}

}  // namespace muster
