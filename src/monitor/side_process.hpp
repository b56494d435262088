// Work in a separate process, for what may never return: a driver that hangs, a lock that a stopped process
// holds. This process sends requests and checks for answers, and never waits.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::monitor {

class SideProcess {
 public:
  // Runs work in a fork of this process, which must have no threads. It reads from the first descriptor (its end is the
  // end of this object) and writes to the second; it has no terminal and nothing else that is open here.
  static Result<SideProcess> start(const std::function<void(int in, int out)>& work);
  SideProcess(SideProcess&&) noexcept = default;
  SideProcess& operator=(SideProcess&&) noexcept = default;

  // Readable when there is something to receive. None once it has ended.
  int descriptor() const { return out_.number(); }
  // False if that is not known at the moment.
  bool tell(std::string_view text) const;
  // Whole lines that it has written since the last time, without waiting.
  std::vector<std::string> receive();
  // It closed its end, and all it wrote was received.
  bool has_ended() const { return !out_; }
  // Kills it. One that hangs in the kernel is left behind.
  void kill();

 private:
  SideProcess(pid_t pid, FileDescriptor in, FileDescriptor out) : pid_(pid), in_(std::move(in)), out_(std::move(out)) {}

  pid_t pid_ = 0;
  FileDescriptor in_, out_;
  std::string partial_;
};

}  // namespace muster::monitor
