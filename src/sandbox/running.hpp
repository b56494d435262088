// A program that runs in a sandbox, seen from outside.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "sandbox/confinement.hpp"
#include "sandbox/limits.hpp"
#include "system/file_descriptor.hpp"

namespace muster::sandbox {

// With the reason in errno.
Error could_not(std::string_view action);

// The keeper of a sandbox; ends it, and the program with it.
class Running {
 public:
  Running(pid_t keeper, FileDescriptor control) : keeper_(keeper), control_(std::move(control)) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running();

  bool permit();
  // The keeper is to end the program, and will be ended itself if it does not.
  void stop();
  void kill_if_due();
  int control() const { return control_.number(); }
  // Nothing if the keeper is gone without one.
  std::optional<Report> report();
  // Once it returns, no process of the sandbox is left.
  void wait();

 private:
  pid_t keeper_;
  FileDescriptor control_;
  std::optional<std::chrono::steady_clock::time_point> kill_at_;
};

// What the program writes, up to the limit.
class Output {
 public:
  Output(FileDescriptor output, FileDescriptor errors, ByteCount limit)
      : from_{std::move(output), std::move(errors)}, left_(limit.value) {}

  int number(std::size_t stream) const { return from_[stream].number(); }
  bool is_over() const { return left_ < 0; }
  // False when nothing is there at present.
  bool take(std::size_t stream);
  void take_rest();

  std::array<std::string, 2> text;

 private:
  std::array<FileDescriptor, 2> from_;
  std::int64_t left_;
};

// What watching gave; without a report the keeper was killed.
struct Watched {
  std::optional<Report> report;
  std::optional<LimitKind> exceeded;
  bool called_off = false;
};

// Until the program has ended by itself, at a limit, or because until became readable.
Watched watch(Running& running, Output& output, const FileDescriptor& until, const Limits& limits);

// For a report that the program has ended.
Outcome to_outcome(const Watched& watched, Output output, const Limits& limits);
// For any other one.
Error to_error(const Report& report, const std::string& program);

}  // namespace muster::sandbox
