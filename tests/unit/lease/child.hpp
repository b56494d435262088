// A forked process that a test talks with, line by line.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>

#include "system/file_descriptor.hpp"

namespace muster::testing {

// The child's end.
class Talk {
 public:
  Talk(FileDescriptor in, FileDescriptor out) : in_(std::move(in)), out_(std::move(out)) {}

  void say(const std::string& line) const {
    const std::string text = line + "\n";
    if (::write(out_.number(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) ::_exit(99);
  }
  // Until the test says go_on(), or is gone.
  void listen() const {
    char byte = 0;
    while (::read(in_.number(), &byte, 1) < 0 && errno == EINTR) {
    }
  }

 private:
  FileDescriptor in_;
  FileDescriptor out_;
};

class Child {
 public:
  explicit Child(const std::function<void(const Talk&)>& body) {
    std::array<int, 2> down{};
    std::array<int, 2> up{};
    if (::pipe2(down.data(), O_CLOEXEC) != 0 || ::pipe2(up.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    FileDescriptor child_in(down[0]);
    FileDescriptor child_out(up[1]);
    to_child_ = FileDescriptor(down[1]);
    from_child_ = FileDescriptor(up[0]);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ == 0) {
      to_child_ = FileDescriptor();
      from_child_ = FileDescriptor();
      {
        const Talk talk(std::move(child_in), std::move(child_out));
        body(talk);
      }
      ::_exit(0);
    }
  }
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)),
        to_child_(std::move(other.to_child_)),
        from_child_(std::move(other.from_child_)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ > 0) kill_now();
  }

  pid_t pid() const { return pid_; }

  // The next line it says; empty when it has ended.
  std::string hear() {
    std::string line;
    char byte = 0;
    while (true) {
      const ssize_t got = ::read(from_child_.number(), &byte, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 || byte == '\n') return line;
      line += byte;
    }
  }
  void go_on() const {
    if (::write(to_child_.number(), "x", 1) != 1) throw std::runtime_error("the child is gone");
  }
  // Returns after the kernel has closed its files.
  void kill_now() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  void wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  FileDescriptor to_child_;
  FileDescriptor from_child_;
};

// What body returns, run in a process of its own: for tests that change the user, limits or mounts.
inline std::string in_child(const std::function<std::string()>& body) {
  Child child([&](const Talk& talk) { talk.say(body()); });
  std::string said = child.hear();
  child.wait();
  return said;
}

// Another user where the tests run as root.
inline void become_another_user() {
  constexpr uid_t nobody = 65534;
  if (::geteuid() == 0 && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) throw std::runtime_error("setuid");
}

}  // namespace muster::testing
