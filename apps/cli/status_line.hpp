// One line on the terminal that is overwritten repeatedly during a long operation. Safe in several threads.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace muster::cli {

class StatusLine {
 public:
  StatusLine();
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // Whether standard error is a terminal, where a line can be overwritten.
  bool visible() const { return terminal_; }
  // Shown only after two seconds, and at most ten times a second.
  void show(const std::string& text, std::chrono::milliseconds elapsed);
  void clear();

 private:
  bool terminal_;
  std::mutex mutex_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace muster::cli
