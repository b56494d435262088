#include "cli/screen.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "system/files.hpp"

namespace muster::cli {
namespace {

// Another page, no cursor, no wrapping at the right edge; and back. The page is left empty: a terminal that had another
// size in between may show parts of it again.
constexpr std::string_view take_terminal = "\033[?1049h\033[?25l\033[?7l\033[2J";
constexpr std::string_view give_terminal_back = "\033[0m\033[H\033[2J\033[?7h\033[?25h\033[?1049l";

// What a crash handler needs; handlers can only use such variables.
struct Rescue {
  termios before;
  std::atomic<bool> is_needed{false};
};
Rescue rescue;
static_assert(std::atomic<bool>::is_always_lock_free);

void rescue_terminal(int signal) {
  if (rescue.is_needed.exchange(false)) {
    [[maybe_unused]] const ssize_t written =
        ::write(STDOUT_FILENO, give_terminal_back.data(), give_terminal_back.size());
    ::tcsetattr(STDIN_FILENO, TCSANOW, &rescue.before);
  }
  ::raise(signal);  // SA_RESETHAND: it has its default effect now
}

void watch_for_crashes() {
  struct sigaction action = {};
  action.sa_handler = rescue_terminal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(signal, &action, nullptr);
}

Error refusal(std::string what) {
  return {Error::Kind::refused, std::move(what), "muster top --once prints everything once, also for pipes"};
}

}  // namespace

Result<Screen> Screen::open() {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
    return refusal(fmt::format("standard {} is not a terminal", ::isatty(STDOUT_FILENO) != 1 ? "output" : "input"));
  const char* kind = std::getenv("TERM");
  if (kind == nullptr || *kind == '\0' || std::string_view(kind) == "dumb")
    return refusal(fmt::format("this terminal cannot be written over (TERM={})", kind == nullptr ? "" : kind));
  termios before = {};
  if (::tcgetattr(STDIN_FILENO, &before) != 0)
    return refusal(fmt::format("the terminal cannot be asked: {}", system_reason()));
  FileDescriptor output(::open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!output) output = FileDescriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!output) return refusal(fmt::format("the terminal cannot be opened: {}", system_reason()));
  Screen screen(std::move(output), before);
  rescue.before = before;
  watch_for_crashes();
  screen.enter();
  return screen;
}

Screen::Screen(Screen&& other) noexcept
    : output_(std::move(other.output_)),
      before_(other.before_),
      is_in_(std::exchange(other.is_in_, false)),
      shown_(std::move(other.shown_)),
      pending_(std::move(other.pending_)) {}

Screen::~Screen() { leave(); }

int Screen::input() const { return STDIN_FILENO; }
int Screen::output() const { return output_.number(); }

monitor::ScreenSize Screen::size() const {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

std::string Screen::read(bool& ended) const {
  std::array<char, 1024> block;
  const ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
  ended = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
  return got > 0 ? std::string(block.data(), static_cast<std::size_t>(got)) : "";
}

void Screen::show(const std::vector<std::string>& lines) {
  if (is_behind()) return;
  for (std::size_t row = 0; row < lines.size(); ++row)
    if (row >= shown_.size() || shown_[row] != lines[row])
      // Blanked first: after a line that fills the screen, nothing can be blanked.
      pending_ += fmt::format("\033[{};1H\033[K{}", row + 1, lines[row]);
  if (shown_.empty()) pending_.insert(0, "\033[2J");
  shown_ = lines;
  flush();
}

void Screen::flush() {
  while (!pending_.empty()) {
    const ssize_t written = ::write(output_.number(), pending_.data(), pending_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno != EAGAIN) pending_.clear();  // the terminal is gone
    if (written <= 0) return;
    pending_.erase(0, static_cast<std::size_t>(written));
  }
}

void Screen::drain(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (is_behind()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return;
    pollfd writable{output_.number(), POLLOUT, 0};
    ::poll(&writable, 1, static_cast<int>(left.count()));
    flush();
  }
}

void Screen::enter() {
  termios raw = before_;
  ::cfmakeraw(&raw);
  raw.c_oflag = before_.c_oflag;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  rescue.is_needed = true;
  is_in_ = true;
  shown_.clear();
  pending_ = take_terminal;
  flush();
}

void Screen::leave() {
  if (!std::exchange(is_in_, false)) return;
  rescue.is_needed = false;
  pending_ += give_terminal_back;
  drain(std::chrono::milliseconds(300));
  pending_.clear();
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

}  // namespace muster::cli
