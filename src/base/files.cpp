#include "base/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/file_descriptor.hpp"

namespace muster {

std::string system_reason() { return std::generic_category().message(errno); }

Result<std::string> read_file(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto cannot = [&] {
    return Error{Error::Kind::bad_input, fmt::format("cannot read {}: {}", path.string(), system_reason()),
                 "check the path and its permissions"};
  };
  if (!file) return cannot();
  std::string text;
  char block[65536];
  while (true) {
    const ssize_t got = ::read(file.number(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot();
    if (got == 0) return text;
    text.append(block, static_cast<std::size_t>(got));
  }
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  const std::string beside = fmt::format("{}.part-{}", path.string(), ::getpid());
  const auto cannot = [&] {
    const Error error{Error::Kind::failed, fmt::format("cannot write {}: {}", path.string(), system_reason()),
                      "check free space and permissions of the folder"};
    ::unlink(beside.c_str());
    return error;
  };
  {
    const FileDescriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file) return cannot();
    while (!text.empty()) {
      const ssize_t put = ::write(file.number(), text.data(), text.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return cannot();
      text.remove_prefix(static_cast<std::size_t>(put));
    }
    if (::fsync(file.number()) != 0) return cannot();
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) return cannot();
  return {};
}

}  // namespace muster
