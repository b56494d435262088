#include "job/generate/line_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "system/files.hpp"

namespace muster::job {

Result<LineOutput> LineOutput::open(const std::string& path) {
  if (path == "-") return LineOutput({}, "standard output", false, false);
  constexpr int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY;
  FileDescriptor file(::open(path.c_str(), flags | O_CREAT | O_EXCL, 0666));
  const bool made = static_cast<bool>(file);
  if (!made && errno == EEXIST) file = FileDescriptor(::open(path.c_str(), flags));
  if (!file) {
    const int reason = errno;
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return Error{Error::Kind::bad_input, fmt::format("cannot write {}: {}", path, std::strerror(reason)),
                 reason == ENOENT ? fmt::format("mkdir -p {}", folder) : "name a file that can be written with -o"};
  }
  struct stat facts = {};
  const bool regular = ::fstat(file.number(), &facts) == 0 && S_ISREG(facts.st_mode);
  if (regular && ::flock(file.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return Error{Error::Kind::refused, fmt::format("another run writes {}", path),
                 "wait for it, or name another file with -o"};
  return LineOutput(std::move(file), path, regular, made);
}

LineOutput::~LineOutput() {
  if (file_ && made_) ::unlink(name_.c_str());
}

Result<void> LineOutput::begin(std::int64_t keep) {
  made_ = false;
  if (!regular_) return {};
  if (::ftruncate(descriptor(), keep) != 0 || ::lseek(descriptor(), keep, SEEK_SET) != keep) return explain(errno);
  whole_ = keep;
  return {};
}

Error LineOutput::explain(int reason) const {
  if (reason == EPIPE)
    return {Error::Kind::failed, fmt::format("{} was closed by its reader", name_), "to keep everything: -o FILE"};
  return {Error::Kind::failed, fmt::format("cannot write {}: {}", name_, std::strerror(reason)),
          reason == ENOSPC || reason == EDQUOT ? "make room, or name a file on another disk with -o" : ""};
}

Result<void> LineOutput::append(std::string_view lines) {
  std::size_t written = 0;
  while (written < lines.size()) {
    const ssize_t count = ::write(descriptor(), lines.data() + written, lines.size() - written);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (count < 0 && errno == EAGAIN) {
      pollfd waiting{descriptor(), POLLOUT, 0};
      ::poll(&waiting, 1, -1);
    } else if (count < 0 && errno != EINTR) {
      const int reason = errno;
      const auto newline = lines.substr(0, written).rfind('\n');
      whole_ += newline == std::string_view::npos ? 0 : static_cast<std::int64_t>(newline) + 1;
      // If even that fails, nothing more can be done.
      if (regular_) static_cast<void>(!::ftruncate(descriptor(), whole_));
      return explain(reason);
    }
  }
  whole_ += static_cast<std::int64_t>(lines.size());
  return {};
}

}  // namespace muster::job
