// What a confined program may use, and how it ended.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_count.hpp"
#include "system/subprocess.hpp"

namespace muster::sandbox {

struct Limits {
  std::chrono::seconds cpu_time{10};        // of a process
  std::chrono::milliseconds wall_time{50'000};  // of everything; longer, so that a busy machine fails nobody
  ByteCount memory = gibibytes(1);          // address space of a process
  ByteCount files = mebibytes(64);          // a file, and /tmp as a whole
  ByteCount output = mebibytes(1);          // standard output and standard error together
  int processes = 1;                        // at once; more than one needs namespaces
};

enum class LimitKind { cpu_time, wall_time, output };
std::string_view to_string(LimitKind limit);  // "time on the CPU"

struct Outcome {
  ProcessEnd end;
  std::optional<LimitKind> exceeded;  // it was ended for this
  bool called_off = false;            // it was ended because Order::until had
  std::string output;                 // cut at the limit
  std::string errors;
  std::chrono::milliseconds cpu_time{0};
  ByteCount peak_memory;
};

}  // namespace muster::sandbox
