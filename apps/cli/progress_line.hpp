// One line on standard error that tells how far a transfer is.
#pragma once

#include <optional>
#include <string>

#include "base/byte_count.hpp"

namespace muster::cli {

// On a terminal the line is written over itself; elsewhere only each further quarter gets a line.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(ByteCount done, ByteCount total);

 private:
  std::string what_;
  bool terminal_;
  std::optional<std::int64_t> shown_;  // percent
};

}  // namespace muster::cli
