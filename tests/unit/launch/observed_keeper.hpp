// A keeper whose events a test waits for, and the small things its tests need around it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "system/file_descriptor.hpp"
#include "system/process_handle.hpp"
#include "launch/keeper/keeper.hpp"

namespace muster::launch {

constexpr std::chrono::seconds long_enough(30);

inline bool wait_readable(int descriptor) {
  pollfd waiting{descriptor, POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(long_enough).count())) > 0;
}

// Lines that processes say into a pipe.
class Lines {
 public:
  Lines() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    read_ = FileDescriptor(ends[0]);
    write_ = FileDescriptor(ends[1]);
  }
  int writer() const { return write_.number(); }
  void close_writer() { FileDescriptor(std::move(write_)); }

  // The next line; throws when none comes, and at the end.
  std::string next() {
    std::string line;
    for (char byte = 0; read_byte(byte) && byte != '\n';) line += byte;
    if (line.empty()) throw std::runtime_error("no line came");
    return line;
  }
  pid_t next_pid() { return std::stoi(next()); }
  bool at_end() const {
    char byte = 0;
    return wait_readable(read_.number()) && ::read(read_.number(), &byte, 1) == 0;
  }

 private:
  bool read_byte(char& byte) const { return wait_readable(read_.number()) && ::read(read_.number(), &byte, 1) == 1; }
  FileDescriptor read_;
  FileDescriptor write_;
};

class ObservedKeeper {
 public:
  explicit ObservedKeeper(ControlGroups groups = ControlGroups::where_allowed) : keeper_(start(groups)) {}
  Keeper& operator*() { return keeper_; }
  Keeper* operator->() { return &keeper_; }

  void run(const std::vector<WorkerCommand>& workers) {
    if (const auto sent = keeper_.start_workers(workers); !sent) throw std::runtime_error(sent.error().what);
  }
  // The next event, whatever it is.
  KeeperEvent next() {
    while (events_.empty()) {
      if (!wait_readable(keeper_.descriptor())) throw std::runtime_error("no event came");
      for (KeeperEvent& event : keeper_.receive()) events_.push_back(std::move(event));
    }
    KeeperEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  // The next event of that type; others before it are passed over.
  template <class Event>
  Event wait_for() {
    while (true)
      if (KeeperEvent event = next(); auto* wanted = std::get_if<Event>(&event)) return std::move(*wanted);
  }
  // The process numbers of that many ranks, by local rank, once they run.
  std::vector<pid_t> wait_for_starts(std::size_t count) {
    std::vector<pid_t> pids(count);
    for (std::size_t i = 0; i < count; ++i) {
      const WorkerStarted started = wait_for<WorkerStarted>();
      pids.at(static_cast<std::size_t>(started.local_rank)) = started.pid;
    }
    return pids;
  }

 private:
  static Keeper start(ControlGroups groups) {
    auto keeper = Keeper::start(groups);
    if (!keeper) throw std::runtime_error(keeper.error().what);
    return std::move(*keeper);
  }
  Keeper keeper_;
  std::deque<KeeperEvent> events_;
};

inline WorkerCommand command(std::vector<std::string> words, int output = STDOUT_FILENO) {
  return {std::move(words), {{"PATH", "/usr/local/bin:/usr/bin:/bin"}}, output, STDERR_FILENO, {}};
}
inline WorkerCommand shell(const std::string& script, int output = STDOUT_FILENO) {
  return command({"/bin/sh", "-c", script}, output);
}

inline bool is_alive(const FileDescriptor& process) {
  pollfd waiting{process.number(), POLLIN, 0};
  return process && ::poll(&waiting, 1, 0) == 0;
}

// Handles on living processes, to see whether they end.
class Watched {
 public:
  explicit Watched(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) {
      handles_.push_back(open_process(pid));
      if (!is_alive(handles_.back())) throw std::runtime_error("no such process: " + std::to_string(pid));
    }
  }
  bool all_end() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (const FileDescriptor& handle : handles_)
      if (!wait_for_end(handle, deadline)) return false;
    return true;
  }
  bool all_ended() const {
    for (const FileDescriptor& handle : handles_)
      if (is_alive(handle)) return false;
    return true;
  }
  bool all_live() const {
    for (const FileDescriptor& handle : handles_)
      if (!is_alive(handle)) return false;
    return true;
  }

 private:
  std::vector<FileDescriptor> handles_;
};

// A fork of the test that does its work until it is killed.
class ForkedProcess {
 public:
  explicit ForkedProcess(const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    try {
      work();
    } catch (const std::exception&) {
      ::_exit(98);
    }
    ::_exit(0);
  }
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;
  ~ForkedProcess() { kill_now(); }
  pid_t pid() const { return pid_; }
  void kill_now() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  // Its exit code, or minus the signal.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

inline void sleep_until_killed() {
  while (true) ::pause();
}

}  // namespace muster::launch
