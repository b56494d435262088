#include "cli/status_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "base/cell_text.hpp"
#include "base/clean_text.hpp"
#include "cli/terminal.hpp"

namespace muster::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds worth_showing(2000);
constexpr milliseconds between_looks(100);

bool can_be_overwritten() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

StatusLine::StatusLine() : terminal_(can_be_overwritten()) {}

void StatusLine::show(const std::string& text, milliseconds elapsed) {
  const std::lock_guard guard(mutex_);
  const auto now = steady_clock::now();
  if (!terminal_ || elapsed < worth_showing || now - last_ < between_looks) return;
  last_ = now;
  shown_ = true;
  tell_user(fmt::format("\r\x1b[K{}", cut_to_cells(printable_lines(text), output_width() - 1, output_is_unicode() ? "…" : "~")));
}

void StatusLine::clear() {
  const std::lock_guard guard(mutex_);
  if (shown_) tell_user("\r\x1b[K");
  shown_ = false;
}

}  // namespace muster::cli
