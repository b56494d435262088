#include "system/line_reader.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "system/files.hpp"

namespace muster {
namespace {

constexpr std::size_t portion = std::size_t{1} << 16;

}  // namespace

LineReader::LineReader(int descriptor, std::string name, std::size_t longest_line)
    : descriptor_(descriptor), name_(std::move(name)), longest_line_(longest_line) {}

bool LineReader::ready() const { return ended_ || buffer_.find('\n', searched_) != std::string::npos; }

std::string LineReader::cut(std::size_t length) {
  std::string line = buffer_.substr(begin_, length);
  if (line.ends_with('\r')) line.pop_back();
  ++count_;
  return line;
}

Result<LineReader::Filled> LineReader::fill() {
  pollfd waiting{descriptor_, POLLIN, 0};
  if (::poll(&waiting, 1, 0) == 0) return Filled::nothing_yet;
  buffer_.erase(0, std::exchange(begin_, 0));
  searched_ = buffer_.size();
  buffer_.resize(searched_ + portion);
  const ssize_t count = ::read(descriptor_, buffer_.data() + searched_, portion);
  const int reason = errno;
  buffer_.resize(searched_ + static_cast<std::size_t>(count > 0 ? count : 0));
  bytes_read_ += buffer_.size() - searched_;
  if (count > 0) return Filled::something;
  if (count == 0) return Filled::end;
  if (reason == EINTR || reason == EAGAIN) return Filled::nothing_yet;
  errno = reason;
  return Error{Error::Kind::failed, fmt::format("cannot read {}: {}", name_, system_reason()), ""};
}

Result<NextLine> LineReader::next() {
  while (true) {
    if (const auto newline = buffer_.find('\n', searched_); newline != std::string::npos) {
      std::string line = cut(newline - begin_);
      begin_ = searched_ = newline + 1;
      return NextLine(std::move(line));
    }
    searched_ = buffer_.size();
    if (ended_) return NextLine(NoMoreLines{});
    if (buffer_.size() - begin_ > longest_line_) {
      ended_ = true;
      buffer_.clear();
      begin_ = searched_ = 0;
      return Error{Error::Kind::bad_input,
                   fmt::format("{}:{}: the line is longer than {} bytes", name_, count_ + 1, longest_line_),
                   "make it shorter"};
    }
    const auto filled = fill();
    if (!filled) return filled.error();
    if (*filled == Filled::nothing_yet) return NextLine(NoLineYet{});
    if (*filled == Filled::something) continue;
    ended_ = true;
    if (begin_ < buffer_.size()) {
      std::string line = cut(buffer_.size() - begin_);
      begin_ = searched_ = buffer_.size();
      return NextLine(std::move(line));
    }
  }
}

}  // namespace muster
