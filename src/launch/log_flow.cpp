#include "launch/log_flow.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "system/files.hpp"
#include "launch/console_write.hpp"

namespace muster::launch {
namespace {

Error cannot_open(const std::filesystem::path& path) {
  return {Error::Kind::failed, fmt::format("cannot open the log {}: {}", path.string(), system_reason()),
          errno == EMFILE ? "raise the limit of open files (ulimit -n)" : ""};
}

}  // namespace

Result<LogFlow> LogFlow::open(PumpedStream stream, int console, ErrorTail* tail) {
  FileDescriptor source;
  if (stream.followed) {
    source = FileDescriptor(::open(stream.followed->c_str(), O_RDONLY | O_CLOEXEC));
    if (!source) return cannot_open(*stream.followed);
  } else {
    source = std::move(stream.piped);
    ::fcntl(source.number(), F_SETFL, ::fcntl(source.number(), F_GETFL) | O_NONBLOCK);
  }
  FileDescriptor filtered;
  if (stream.filtered) {
    filtered = FileDescriptor(::open(stream.filtered->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!filtered) return cannot_open(*stream.filtered);
  }
  return LogFlow(std::move(stream), std::move(source), std::move(filtered), console, tail);
}

LogFlow::LogFlow(PumpedStream stream, FileDescriptor source, FileDescriptor filtered, int console, ErrorTail* tail)
    : stream_(std::move(stream)),
      source_(std::move(source)),
      filtered_(std::move(filtered)),
      console_(console),
      tail_(tail),
      lines_(stream_.prefix.value_or(""), filtered_ ? stream_.filters : std::vector<std::string>()) {}

LogFlow::Moved LogFlow::move(std::span<char> buffer) {
  ssize_t got = 0;
  do got = ::read(source_.number(), buffer.data(), buffer.size());
  while (got < 0 && errno == EINTR);
  if (got > 0) {
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    pass_on(bytes, bytes.size() == buffer.size());
    return {Progress::some, bytes.size()};
  }
  if (stream_.followed || (got < 0 && errno == EAGAIN)) {
    write_carried();
    return {Progress::nothing, 0};
  }
  end();  // a pipe without writers reads as 0, a terminal as EIO
  return {Progress::over, 0};
}

void LogFlow::finish(std::span<char> buffer) {
  std::size_t left = waiting_bytes();
  while (left > 0) {
    const Moved moved = move(buffer.first(std::min(left, buffer.size())));
    if (moved.progress == Progress::over) return;
    if (moved.progress == Progress::nothing) break;
    left -= moved.bytes;
  }
  end();
}

// What was written and not read yet; for a pipe, the most that it can be.
std::size_t LogFlow::waiting_bytes() const {
  constexpr int terminal_holds = 128 * 1024;
  if (!stream_.followed)
    return static_cast<std::size_t>(std::max(terminal_holds, ::fcntl(source_.number(), F_GETPIPE_SZ)));
  struct stat status {};
  const off_t at = ::lseek(source_.number(), 0, SEEK_CUR);
  if (::fstat(source_.number(), &status) != 0 || status.st_size <= at) return 0;
  return static_cast<std::size_t>(status.st_size - at);
}

void LogFlow::pass_on(std::string_view bytes, bool more_is_there) {
  if (tail_ != nullptr) tail_->remember(bytes);
  if (stream_.console && !stream_.prefix) pass_on_unchanged(bytes, more_is_there);
  if (!stream_.prefix && !filtered_) return;
  lines_.take(bytes, block_);
  write_out();
}

// A read that fills the buffer ends anywhere, often within a line that the rank wrote in one piece. So that no other
// rank's bytes come between, the beginning of that line waits for the next read, which finds the rest.
void LogFlow::pass_on_unchanged(std::string_view bytes, bool more_is_there) {
  const std::size_t last_end = more_is_there ? bytes.rfind('\n') : std::string_view::npos;
  const std::size_t now = last_end == std::string_view::npos ? bytes.size() : last_end + 1;
  if (carried_.empty()) {
    console_write(console_, bytes.substr(0, now));
  } else {
    carried_ += bytes.substr(0, now);
    write_carried();
  }
  carried_ = bytes.substr(now);
}

void LogFlow::write_out() {
  if (stream_.console && stream_.prefix) console_write(console_, block_.lines);
  if (filtered_) console_write(filtered_.number(), block_.matched);
  block_.lines.clear();
  block_.matched.clear();
}

void LogFlow::write_carried() {
  console_write(console_, carried_);
  carried_.clear();
}

void LogFlow::end() {
  write_carried();
  lines_.end(block_);
  write_out();
}

}  // namespace muster::launch
