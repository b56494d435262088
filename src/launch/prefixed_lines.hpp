// A stream of bytes as whole lines with a prefix before each. "\n", "\r\n" and a "\r" alone end a line, so that every
// state of a progress bar is a line of its own: as torchrun shows them. All other bytes pass unchanged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::launch {

struct LineBlock {
  std::string lines;    // every line
  std::string matched;  // those that hold one of the filters
};

class PrefixedLines {
 public:
  // What is held back until its end comes. A longer line is cut, and each piece becomes a line.
  static constexpr std::size_t longest_line = std::size_t{1} << 20;

  PrefixedLines(std::string prefix, std::vector<std::string> filters);

  // Appends what has become whole.
  void take(std::string_view bytes, LineBlock& block);
  // Appends a last line that has no end, with one.
  void end(LineBlock& block);

 private:
  void complete(std::string_view rest_of_line, LineBlock& block);
  void hold(std::string_view part, LineBlock& block);
  void put(std::string_view line, LineBlock& block) const;

  std::string prefix_;
  std::vector<std::string> filters_;
  std::string held_;              // the beginning of a line
  bool ended_by_return_ = false;  // the last byte was "\r": a "\n" that follows belongs to it
};

}  // namespace muster::launch
