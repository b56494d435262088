// A pipe that a test writes into.
#pragma once

#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string_view>

#include "system/file_descriptor.hpp"

namespace muster::testing {

class Pipe {
 public:
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe");
    reading_ = FileDescriptor(ends[0]);
    writing_ = FileDescriptor(ends[1]);
  }

  int reading() const { return reading_.number(); }
  void write(std::string_view text) const {
    if (::write(writing_.number(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("a pipe that takes too little");
  }
  void close() { writing_ = FileDescriptor(); }

 private:
  FileDescriptor reading_, writing_;
};

}  // namespace muster::testing
