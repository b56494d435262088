// Which instruction sets this CPU really executes. Some virtual machines announce sets that they trap; a program that
// believes the announcement ends with SIGILL. Each announced set is tried in a forked child.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

enum class InstructionSetOutcome {
  works,
  traps,          // announced, and the instruction ends the process
  not_permitted,  // announced, but the kernel refuses its use: programs that ask are told so and do without
  absent,         // not announced
  not_known,      // it could not be tried
};

// The result of trying a set, if it survives.
enum class ProbeAnswer : int { done = 0, not_permitted = 1 };

struct InstructionSet {
  std::string_view name;   // as in /proc/cpuinfo
  bool (*announced)();     // as libraries ask: by the CPU, and enabled by the kernel
  ProbeAnswer (*probe)();  // executes one of its instructions; runs in a child
};

struct InstructionSetReport {
  std::string name;
  InstructionSetOutcome outcome = InstructionSetOutcome::absent;
  std::optional<int> signal;  // what ended the try; absent when it hung
  bool operator==(const InstructionSetReport&) const = default;
};

// Those that decide how fast and whether matrix products run: avx2, avx512f, avx512_bf16, amx_tile, amx_bf16. None on
// other architectures than x86-64.
std::span<const InstructionSet> known_instruction_sets();

// Costs one fork per announced set. limit: for each of them, in case the instruction hangs.
std::vector<InstructionSetReport> try_instruction_sets(
    std::span<const InstructionSet> sets = known_instruction_sets(),
    std::chrono::milliseconds limit = std::chrono::milliseconds(500));

// What ONEDNN_MAX_CPU_ISA must be set to, before the library is loaded, so that oneDNN avoids the sets that
// trap. Nothing when none traps, or when the current value is low enough.
std::optional<std::string> onednn_cap(std::span<const InstructionSetReport> reports,
                                      std::optional<std::string_view> current = std::nullopt);

}  // namespace muster
