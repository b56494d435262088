// A line that is typed at a terminal, edited byte by byte: keys in, terminal output out. Pure: the owner of
// the terminal reads and writes.
//
// Keys: left, right, Home, End, Backspace, Delete, Ctrl-A E B F D K U W L, up and down (Ctrl-P, Ctrl-N) for what was
// typed before. A line that is wider than the terminal scrolls sideways. Text that is pasted (bracketed paste) is taken
// as it is: its newlines are part of the line, and shown as ↵.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class LineEditor {
 public:
  enum class Event {
    none,
    line,       // Enter: text() is the line
    interrupt,  // Ctrl-C: text() is what was there, and is abandoned
    end,        // Ctrl-D on an empty line
  };

  // To be written to the terminal once before and once after all editing: pastes are marked in between.
  static constexpr std::string_view mark_pastes = "\033[?2004h";
  static constexpr std::string_view mark_pastes_no_more = "\033[?2004l";

  // prompt: printable ASCII. history: lines that were typed before, the oldest first.
  explicit LineEditor(std::string prompt, std::vector<std::string> history = {});

  // Begins an empty line: returns what to show. columns: of the terminal.
  std::string begin(std::size_t columns);
  // Handles a key; appends to shown what the terminal should show.
  Event take(char byte, std::string& shown);

  // For the last event.
  const std::string& text() const { return text_; }
  // Adds a line to the history, unless it is empty or the same as the last one.
  void remember(const std::string& line);
  const std::vector<std::string>& history() const { return history_; }

 private:
  enum class Mode { plain, escape, sequence, pasting };

  Event control(char byte, std::string& shown);
  void sequence_ended(char final, std::string& shown);
  void insert(std::string character, std::string& shown);
  void erase(std::size_t begin, std::size_t end, std::string& shown);
  void move_to(std::size_t place, std::string& shown);
  void browse(int step, std::string& shown);
  void replace(const std::string& line, std::string& shown);
  void take_text_byte(char byte, std::string& shown);
  Event leave(Event event, std::string& shown);
  std::string drawn();
  std::string joined() const;
  std::size_t room() const;

  std::string prompt_;
  std::vector<std::string> history_;
  std::size_t columns_ = 80;
  std::vector<std::string> characters_;  // of the line, each whole
  std::size_t cursor_ = 0;               // before this one
  std::size_t first_shown_ = 0;          // of the characters
  std::size_t browsed_ = 0;              // of the history; its size: the line itself
  std::string draft_;                    // the line, while others of the history are shown
  Mode mode_ = Mode::plain;
  bool in_paste_ = false;
  std::string parameters_;  // of an escape sequence
  std::string partial_;     // bytes of an incomplete character
  std::string text_;
};

}  // namespace muster
