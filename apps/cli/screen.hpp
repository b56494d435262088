// The whole terminal, taken for a while: raw keys in, lines out. Its earlier contents are back when this ends, however
// the process ends, except by SIGKILL.
#pragma once

#include <termios.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "monitor/view.hpp"

namespace muster::cli {

class Screen {
 public:
  // Refused if standard input or output is not a terminal, or one that cannot be overwritten (TERM=dumb).
  static Result<Screen> open();
  Screen(Screen&& other) noexcept;
  Screen& operator=(Screen&&) = delete;
  ~Screen();

  // Readable when keys were pressed.
  int input() const;
  // Writable when flush() can continue.
  int output() const;
  monitor::ScreenSize size() const;
  // What was typed; empty with ended set when the terminal is gone.
  std::string read(bool& ended) const;

  // Writes the lines that differ from what is there, all at once. A terminal that takes nothing (Ctrl-S, a slow line)
  // is not waited for: while is_behind(), nothing more is shown.
  void show(const std::vector<std::string>& lines);
  bool is_behind() const { return !pending_.empty(); }
  void flush();
  // Everything is written again next time: the size changed, or other programs wrote.
  void forget() { shown_.clear(); }

  // Gives the terminal back and takes it again.
  void leave();
  void enter();

 private:
  Screen(FileDescriptor output, termios before) : output_(std::move(output)), before_(before) {}
  void drain(std::chrono::milliseconds patience);

  FileDescriptor output_;  // opened separately, so that it does not block
  termios before_;
  bool is_in_ = false;
  std::vector<std::string> shown_;
  std::string pending_;
};

}  // namespace muster::cli
