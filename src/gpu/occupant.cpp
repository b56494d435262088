#include "gpu/occupant.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace muster::gpu {
namespace {

constexpr ByteCount least_memory = mebibytes(64);

bool occupies(const GpuProcess& process, std::span<const pid_t> own) {
  if (process.graphics || process.exiting) return false;
  if (process.memory && *process.memory < least_memory) return false;
  return std::ranges::find(own, process.pid) == own.end();
}

}  // namespace

std::vector<const GpuProcess*> occupants(const Gpu& gpu, std::span<const pid_t> own) {
  std::vector<const GpuProcess*> found;
  for (const GpuProcess& process : gpu.processes)
    if (occupies(process, own)) found.push_back(&process);
  return found;
}

std::string describe(std::span<const GpuProcess* const> occupants) {
  const GpuProcess& largest = **std::ranges::max_element(
      occupants, {}, [](const GpuProcess* process) { return process->memory.value_or(ByteCount{}); });
  std::vector<std::string> facts{fmt::format("pid {}", largest.pid)};
  if (largest.command) facts.push_back(*largest.command);
  if (largest.memory) facts.push_back(to_string(*largest.memory));
  std::string text = fmt::format("{} ({})", largest.user.value_or("an unknown user"), join(facts, ", "));
  if (occupants.size() > 1) text += fmt::format(" and {} more", occupants.size() - 1);
  return text;
}

}  // namespace muster::gpu
