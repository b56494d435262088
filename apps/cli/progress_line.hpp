// One line on standard error that shows how far a transfer has got.
#pragma once

#include <optional>
#include <string>

#include "base/byte_count.hpp"

namespace muster::cli {

// On a terminal the line overwrites itself; elsewhere there is one line for each further quarter.
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
