#include "system/line_connection.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "system/files.hpp"

namespace muster {
namespace {

// Per call, so that a flood does not hold up the owner's other work; what is left makes the descriptor ready again.
constexpr int most_reads = 64;

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

LineConnection::LineConnection(FileDescriptor socket, LineLimits limits)
    : socket_(std::move(socket)), limits_(limits) {}

void LineConnection::send(std::string_view line) {
  if (broken_) return;
  unsent_ += line;
  unsent_ += '\n';
  write_unsent();
  if (unsent_.size() > limits_.most_unsent)
    broken_ = fmt::format("it has left {} bytes unread, {} at most can wait", unsent_.size(), limits_.most_unsent);
}

// A connection that takes nothing more may still hold the other side's last lines: reading shows that it ended.
void LineConnection::write_unsent() {
  std::size_t written = 0;
  while (written < unsent_.size()) {
    const ssize_t count =
        ::send(socket_.number(), unsent_.data() + written, unsent_.size() - written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      if (!must_wait()) written = unsent_.size();
      break;
    }
  }
  unsent_.erase(0, written);
}

void LineConnection::read_what_came() {
  std::array<char, 64 * 1024> buffer;
  for (int reads = 0; reads < most_reads; ++reads) {
    const ssize_t count = ::recv(socket_.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) {
      received_.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0) {
      broken_ = "the other side closed it";
      return;
    } else if (errno != EINTR) {
      if (!must_wait()) broken_ = system_reason();
      return;
    }
  }
}

std::vector<std::string> LineConnection::receive() {
  std::vector<std::string> lines;
  if (broken_) return lines;
  write_unsent();
  read_what_came();
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = received_.find('\n', std::max(begin, searched_));
    if (end == std::string::npos) break;
    lines.push_back(received_.substr(begin, end - begin));
    begin = end + 1;
  }
  received_.erase(0, begin);
  searched_ = received_.size();
  if (!broken_ && received_.size() > limits_.longest_line)
    broken_ = fmt::format("a line of more than {} bytes came", limits_.longest_line);
  return lines;
}

}  // namespace muster
