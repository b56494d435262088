#include "job/generate/terminal_lines.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "system/files.hpp"

namespace muster::job {
namespace {

constexpr std::size_t most_ahead = std::size_t{1} << 20;
constexpr char interrupt_key = '\003';

std::size_t columns_of(int terminal) {
  winsize size = {};
  return ::ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

TerminalLines::TerminalLines(int input, std::string prompt, std::optional<TypedHistory> history, Show show)
    : input_(input),
      show_(std::move(show)),
      history_(std::move(history)),
      editor_(std::move(prompt), history_ ? history_->read() : std::vector<std::string>()) {}

TerminalLines::~TerminalLines() { give_back(); }

void TerminalLines::take() {
  termios found = {};
  if (before_ || ::tcgetattr(input_, &found) != 0) return;
  before_ = found;
  adjust();
  static_cast<void>(show_(LineEditor::mark_pastes));
}

// A shell that has stopped and continued us leaves the terminal in its own mode.
void TerminalLines::adjust() {
  termios now = {};
  if (!before_ || ::tcgetattr(input_, &now) != 0 || (now.c_lflag & ICANON) == 0) return;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  now.c_cc[VINTR] = now.c_cc[VQUIT] = _POSIX_VDISABLE;
  now.c_cc[VMIN] = 1;
  now.c_cc[VTIME] = 0;
  ::tcsetattr(input_, TCSANOW, &now);
}

void TerminalLines::give_back() {
  if (!before_) return;
  static_cast<void>(show_(LineEditor::mark_pastes_no_more));
  ::tcsetattr(input_, TCSANOW, &*before_);
  before_.reset();
}

Result<void> TerminalLines::begin() { return show_(editor_.begin(columns_of(input_))); }

Result<void> TerminalLines::read_keys() {
  adjust();
  pollfd waiting{input_, POLLIN, 0};
  while (!ended_ && ahead_.size() < most_ahead && ::poll(&waiting, 1, 0) > 0) {
    char block[4096];
    const ssize_t count = ::read(input_, block, sizeof block);
    if (count > 0) {
      ahead_.append(block, static_cast<std::size_t>(count));
    } else if (count == 0 || errno == EIO) {  // the terminal is gone
      ended_ = true;
    } else if (errno != EINTR) {
      if (errno == EAGAIN) return {};
      return Error{Error::Kind::failed, fmt::format("cannot read the terminal: {}", system_reason()), ""};
    }
  }
  return {};
}

Result<NextLine> TerminalLines::next() {
  interrupted_ = false;
  if (auto read = read_keys(); !read) return read.error();
  std::string shown;
  auto event = LineEditor::Event::none;
  std::size_t taken = 0;
  while (taken < ahead_.size() && event == LineEditor::Event::none) event = editor_.take(ahead_[taken++], shown);
  ahead_.erase(0, taken);
  if (auto done = show_(shown); !done) return done.error();
  if (event == LineEditor::Event::end || (event == LineEditor::Event::none && ended_)) return NextLine(NoMoreLines{});
  if (event == LineEditor::Event::none) return NextLine(NoLineYet{});
  if (event == LineEditor::Event::interrupt) {
    interrupted_ = editor_.text().empty();
    return NextLine(std::string());
  }
  if (history_ && !editor_.text().empty() && (editor_.history().empty() || editor_.history().back() != editor_.text()))
    history_->add(editor_.text());
  editor_.remember(editor_.text());
  return NextLine(editor_.text());
}

Result<bool> TerminalLines::interrupted_meanwhile() {
  if (auto read = read_keys(); !read) return read.error();
  const std::size_t key = ahead_.rfind(interrupt_key);
  if (key == std::string::npos) return false;
  ahead_.erase(0, key + 1);
  return true;
}

}  // namespace muster::job
