#include "system/staged_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "system/files.hpp"
#include "system/part_file.hpp"

namespace muster {

namespace fs = std::filesystem;

StagedFile::StagedFile(StagedFile&& other) noexcept
    : place_(std::move(other.place_)), path_(std::exchange(other.path_, {})), file_(std::move(other.file_)) {}

StagedFile::~StagedFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Error StagedFile::cannot_write() const {
  return {Error::Kind::failed, fmt::format("cannot write {}: {}", place_.string(), system_reason()),
          "check free space and permissions of the folder"};
}

Result<StagedFile> StagedFile::create(const fs::path& place) {
  std::error_code ignored;
  const bool direct = fs::exists(place, ignored) && !fs::is_regular_file(place, ignored);
  PartFile part =
      direct ? PartFile{{}, FileDescriptor(::open(place.c_str(), O_WRONLY | O_CLOEXEC))} : create_part_file(place);
  if (!part.file) {
    StagedFile failed(place, {}, {});
    return failed.cannot_write();
  }
  return StagedFile(place, part.path, std::move(part.file));
}

Result<void> StagedFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(file_.number(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return cannot_write();
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Result<void> StagedFile::commit() {
  if (path_.empty()) return {};
  if (::fsync(file_.number()) != 0) return cannot_write();
  if (::rename(path_.c_str(), place_.c_str()) != 0) return cannot_write();
  path_.clear();
  return {};
}

}  // namespace muster
