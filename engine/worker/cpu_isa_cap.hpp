// Keeps LibTorch's CPU library away from instructions that this machine announces and traps.
#pragma once

#include <optional>
#include <string>

namespace muster::worker {

// Tries the instruction sets (one fork for each) and sets ONEDNN_MAX_CPU_ISA where one of them traps. To be called
// while the process has one thread and before anything is computed: the library reads the variable at its first
// product. Returns what the variable was set to.
std::optional<std::string> avoid_trapping_instructions();

}  // namespace muster::worker
