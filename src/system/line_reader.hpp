// Lines from a file, a pipe or a terminal, without ever waiting: for a program that has other things to do while its
// input is slow.
#pragma once

#include <cstddef>
#include <string>
#include <variant>

#include "base/result.hpp"

namespace muster {

struct NoLineYet {};
struct NoMoreLines {};
// A line is without its newline, and without the carriage return before it.
using NextLine = std::variant<std::string, NoLineYet, NoMoreLines>;

class LineReader {
 public:
  // descriptor: borrowed, blocking or not; it is only read from when data is available. name: for messages.
  LineReader(int descriptor, std::string name, std::size_t longest_line);

  // The last line need not end in a newline. A line that is too long is bad_input, and ends the reading.
  Result<NextLine> next();

  // Whether next() can return something although the descriptor has nothing to read.
  bool ready() const;
  int descriptor() const { return descriptor_; }
  std::size_t bytes_read() const { return bytes_read_; }
  // Lines returned so far.
  std::size_t count() const { return count_; }

 private:
  enum class Filled { something, nothing_yet, end };
  Result<Filled> fill();
  std::string cut(std::size_t length);

  int descriptor_;
  std::string name_;
  std::size_t longest_line_;
  std::string buffer_;  // lines from begin_ on have not been returned
  std::size_t begin_ = 0;
  std::size_t searched_ = 0;  // there is no newline from begin_ up to here
  std::size_t count_ = 0;
  std::size_t bytes_read_ = 0;
  bool ended_ = false;
};

}  // namespace muster
