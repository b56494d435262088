#include "worker/cpu_isa_cap.hpp"

#include <cstdlib>

#include "system/instruction_sets.hpp"

namespace muster::worker {

std::optional<std::string> avoid_trapping_instructions() {
  constexpr const char* variable = "ONEDNN_MAX_CPU_ISA";
  const char* current = std::getenv(variable);
  const auto reports = try_instruction_sets();
  const auto cap = onednn_cap(reports, current == nullptr ? std::nullopt : std::optional<std::string_view>(current));
  if (cap) ::setenv(variable, cap->c_str(), 1);
  return cap;
}

}  // namespace muster::worker
