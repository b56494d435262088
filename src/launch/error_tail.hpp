// The end of what one rank said on its standard error: out of the file it wrote, or out of what passed through a pipe.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "system/file_descriptor.hpp"

namespace muster::launch {

// May be used by several threads.
class ErrorTail {
 public:
  static constexpr std::size_t kept_bytes = 64 * 1024;

  // From now on the file is asked, and nothing needs to be remembered.
  void read_from(FileDescriptor file);
  void remember(std::string_view bytes);
  // As a terminal would show them: of a progress bar the last state. Empty lines at the end are left out, and so is a
  // first line whose beginning is not kept.
  std::vector<std::string> lines(std::size_t count) const;

 private:
  mutable std::mutex mutex_;
  FileDescriptor file_;
  std::string text_;  // some more than kept_bytes, of which the end counts
};

}  // namespace muster::launch
