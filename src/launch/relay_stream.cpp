#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>

#include "system/files.hpp"
#include "launch/log_pump.hpp"

namespace muster::launch {
namespace {

// Bytes pass unchanged: what a terminal does to them, the console does.
void make_raw(int terminal, int console) {
  termios settings{};
  if (::tcgetattr(terminal, &settings) == 0) {
    ::cfmakeraw(&settings);
    ::tcsetattr(terminal, TCSANOW, &settings);
  }
  winsize size{};
  if (::ioctl(console, TIOCGWINSZ, &size) == 0) ::ioctl(terminal, TIOCSWINSZ, &size);
}

std::optional<RelayedStream> open_terminal(int console) {
  FileDescriptor ours(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ours || ::grantpt(ours.number()) != 0 || ::unlockpt(ours.number()) != 0) return std::nullopt;
  FileDescriptor theirs(::ioctl(ours.number(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!theirs) return std::nullopt;
  make_raw(theirs.number(), console);
  return RelayedStream{std::move(ours), std::move(theirs)};
}

}  // namespace

Result<RelayedStream> relay_stream(int console) {
  constexpr int pipe_bytes = 256 * 1024;
  if (::isatty(console) == 1)
    if (auto terminal = open_terminal(console)) return std::move(*terminal);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Error{Error::Kind::failed, fmt::format("cannot open a pipe for a rank: {}", system_reason()),
                 "raise the limit of open files (ulimit -n)"};
  ::fcntl(ends[1], F_SETPIPE_SZ, pipe_bytes);  // a smaller one only makes a talkative rank wait more often
  return RelayedStream{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace muster::launch
