// An open file descriptor that closes itself.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace muster {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_ = -1;  // -1 is the kernel's own value for "none"
};

// The same file under a number above 2, close-on-exec, so that giving a child its standard streams never overwrites it.
// Empty, with the reason in errno, when no number is free.
inline FileDescriptor above_standard_streams(FileDescriptor descriptor) {
  if (descriptor.number() < 0 || descriptor.number() > STDERR_FILENO) return descriptor;
  return FileDescriptor(::fcntl(descriptor.number(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

}  // namespace muster
