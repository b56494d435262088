// Lines that a person types at a terminal, with editing and a history. While it has the terminal, Ctrl-C is an ordinary
// key and ends nothing by itself.
#pragma once

#include <termios.h>

#include <functional>
#include <optional>
#include <string>

#include "base/line_editor.hpp"
#include "base/result.hpp"
#include "job/generate/typed_history.hpp"
#include "system/line_reader.hpp"

namespace muster::job {

class TerminalLines {
 public:
  using Show = std::function<Result<void>(std::string_view)>;

  // input: a terminal, borrowed. show: writes to the same terminal.
  TerminalLines(int input, std::string prompt, std::optional<TypedHistory> history, Show show);
  TerminalLines(const TerminalLines&) = delete;
  ~TerminalLines();

  // Takes the terminal: keys arrive one by one, and only we show them. give_back() restores it; so does the destructor.
  void take();
  void give_back();

  // Shows the prompt. Keys that came earlier are processed now.
  Result<void> begin();
  // Without waiting. An empty line if Ctrl-C abandoned one: interrupted() then says so.
  Result<NextLine> next();
  // While no line is wanted: reads keys ahead, and whether Ctrl-C was among them, which discards the others.
  Result<bool> interrupted_meanwhile();
  // Ctrl-C abandoned the last line; whether anything was on it.
  bool interrupted() const { return interrupted_; }
  bool ready() const { return !ahead_.empty() || ended_; }
  int descriptor() const { return input_; }

 private:
  Result<void> read_keys();
  void adjust();

  int input_;
  Show show_;
  std::optional<TypedHistory> history_;
  LineEditor editor_;
  std::optional<termios> before_;  // while we have the terminal
  std::string ahead_;              // keys that were not processed yet
  bool ended_ = false;
  bool interrupted_ = false;
};

}  // namespace muster::job
