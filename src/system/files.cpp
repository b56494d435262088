#include "system/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include "system/file_descriptor.hpp"
#include "system/part_file.hpp"

namespace muster {

namespace {

// The largest size of a file that is read whole.
constexpr std::size_t largest_text_file = std::size_t{1} << 30;

// A pipe that a shell made for us, as in muster config -c <(command).
bool is_of_this_process(const std::filesystem::path& path) {
  const std::string& text = path.native();
  return text.starts_with("/dev/fd/") || text.starts_with("/proc/self/fd/") || text == "/dev/stdin";
}

// A device may have no end, and a pipe whose other end is not open never has anything.
std::optional<std::string> why_not_readable(const FileDescriptor& file, const std::filesystem::path& path) {
  struct stat facts {};
  if (::fstat(file.number(), &facts) != 0) return system_reason();
  if (S_ISDIR(facts.st_mode)) return std::generic_category().message(EISDIR);
  if (S_ISFIFO(facts.st_mode) && !is_of_this_process(path)) return "it is a named pipe, not a file";
  const bool null_device = S_ISCHR(facts.st_mode) && facts.st_rdev == makedev(1, 3);
  if ((S_ISCHR(facts.st_mode) && !null_device && ::isatty(file.number()) != 1) || S_ISBLK(facts.st_mode))
    return "it is a device, not a file";
  return std::nullopt;
}

}  // namespace

bool path_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string system_reason() { return std::generic_category().message(errno); }

Result<std::string> read_file(const std::filesystem::path& path) {
  const auto cannot = [&](const std::string& reason) {
    return Error{Error::Kind::bad_input, fmt::format("cannot read {}: {}", path.string(), reason),
                 "check the path and its permissions"};
  };
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // opening a pipe must not wait
  if (!file) return cannot(system_reason());
  if (const auto problem = why_not_readable(file, path)) return cannot(*problem);
  ::fcntl(file.number(), F_SETFL, ::fcntl(file.number(), F_GETFL) & ~O_NONBLOCK);
  std::string text;
  char block[65536];
  while (text.size() <= largest_text_file) {
    const ssize_t got = ::read(file.number(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot(system_reason());
    if (got == 0) return text;
    text.append(block, static_cast<std::size_t>(got));
  }
  return cannot(fmt::format("it has more than {} bytes", largest_text_file));
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  PartFile part = create_part_file(path);
  const auto cannot = [&] {
    const Error error{Error::Kind::failed, fmt::format("cannot write {}: {}", path.string(), system_reason()),
                      "check free space and permissions of the folder"};
    if (part.file) ::unlink(part.path.c_str());
    return error;
  };
  if (!part.file) return cannot();
  while (!text.empty()) {
    const ssize_t put = ::write(part.file.number(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return cannot();
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fsync(part.file.number()) != 0) return cannot();
  if (::rename(part.path.c_str(), path.c_str()) != 0) return cannot();
  return {};
}

}  // namespace muster
