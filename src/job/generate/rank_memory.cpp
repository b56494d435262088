#include "job/generate/rank_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "system/files.hpp"

namespace muster::job {
namespace {

constexpr std::chrono::milliseconds between_looks(500);

}  // namespace

std::optional<std::int64_t> peak_resident(std::int64_t pid) {
  const auto status = read_file(fmt::format("/proc/{}/status", pid));
  if (!status) return std::nullopt;
  constexpr std::string_view key = "VmHWM:";
  const auto found = status->find(key);
  if (found == std::string::npos) return std::nullopt;
  const std::string_view rest = trim(std::string_view(*status).substr(found + key.size()));
  const auto kibibytes = parse_number<std::int64_t>(rest.substr(0, rest.find(' ')));
  return kibibytes ? std::optional(*kibibytes * 1024) : std::nullopt;
}

void PeakMemory::on_event(const wire::Event& event) {
  Rank& rank = ranks_[event.rank];
  if (const auto* hello = std::get_if<wire::Hello>(&event.body)) rank.pid = hello->pid;
  if (const auto* progress = std::get_if<wire::Progress>(&event.body); progress && progress->what == "memory") {
    rank.tells = true;
    rank.memory.peak = std::max(rank.memory.peak, progress->done);
    rank.memory.limit = progress->total;
  }
  if (const auto* ready = std::get_if<wire::Ready>(&event.body)) rank.tells = rank.tells || ready->device != "cpu";
  const auto now = std::chrono::steady_clock::now();
  const bool last = std::holds_alternative<wire::Done>(event.body);
  if (rank.tells || rank.pid == 0 || (!last && now - rank.looked < between_looks)) return;
  rank.looked = now;
  if (const auto peak = peak_resident(rank.pid)) rank.memory.peak = std::max(rank.memory.peak, *peak);
}

std::optional<RankMemory> PeakMemory::highest() const {
  std::optional<RankMemory> found;
  for (const auto& [number, rank] : ranks_)
    if (rank.memory.peak > 0 && (!found || rank.memory.peak > found->peak)) found = rank.memory;
  return found;
}

}  // namespace muster::job
