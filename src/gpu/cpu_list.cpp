#include "gpu/cpu_list.hpp"

#include <fmt/format.h>

#include <set>

#include "base/text.hpp"

namespace muster::gpu {
namespace {

constexpr int most_cpus = 65536;

std::optional<int> parse_cpu(std::string_view text) {
  if (text.empty() || text.front() == '+') return std::nullopt;
  const auto cpu = parse_number<int>(text);
  if (!cpu || *cpu < 0 || *cpu >= most_cpus) return std::nullopt;
  return cpu;
}

}  // namespace

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::set<int> cpus;
  for (const std::string& range : split(text, ',')) {
    const std::string_view part = trim(range);
    const auto dash = part.find('-');
    const auto first = parse_cpu(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_cpu(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
  }
  return std::vector<int>(cpus.begin(), cpus.end());
}

std::string to_cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t first = 0; first < cpus.size();) {
    std::size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", cpus[first]) : fmt::format("{}-{}", cpus[first], cpus[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace muster::gpu
