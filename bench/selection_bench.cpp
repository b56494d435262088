// How long one selection takes on a machine of 1,000 GPUs (125 NVLink islands of eight, 250 NUMA nodes):
// selection_bench.
#include <fmt/format.h>

#include <chrono>
#include <random>

#include "gpu/selection.hpp"

namespace {

using namespace muster;
using namespace muster::gpu;

constexpr int gpu_count = 1000;
constexpr int selections = 100'000;

std::vector<Candidate> make_candidates(std::mt19937& random) {
  std::vector<Candidate> candidates;
  for (int i = 0; i < gpu_count; ++i) {
    Candidate candidate;
    candidate.gpu = static_cast<GpuIndex>(i);
    candidate.uuid = GpuUuid{fmt::format("GPU-{:08x}", i)};
    candidate.total = gibibytes(80);
    candidate.used = gibibytes(static_cast<std::int64_t>(random() % 70));
    candidate.free = *candidate.total - *candidate.used;
    candidate.utilization = static_cast<int>(random() % 101);
    if (random() % 4 == 0) candidate.holder = "someone (pid 4711)";
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

Topology make_topology() {
  std::vector<Gpu> gpus(gpu_count);
  std::vector<Link> links;
  std::vector<GpuIndex> gpu_of;
  for (int a = 0; a < gpu_count; ++a) {
    gpus[static_cast<std::size_t>(a)].facts.index = static_cast<GpuIndex>(a);
    gpus[static_cast<std::size_t>(a)].facts.numa_node = a / 4;
    gpu_of.push_back(static_cast<GpuIndex>(a));
    for (int b = a + 1; b < gpu_count && b / 8 == a / 8; ++b)
      links.push_back({static_cast<GpuIndex>(a), static_cast<GpuIndex>(b), LinkKind::nvlink, 18});
  }
  return {gpus, links, gpu_of};
}

}  // namespace

int main() {
  std::mt19937 random(1);
  const std::vector<Candidate> candidates = make_candidates(random);
  const Topology topology = make_topology();
  const std::vector<SelectionRequest> requests{
      {.count = 1},
      {.count = 8, .least_loaded = true},
      {.count = 4, .minimum_free = gibibytes(20)},
      {.count = 2, .maximum_utilization = 50, .least_loaded = true},
      {.ids = gpu_names({"3", "999", "512"}), .allow_leased = true},
  };
  std::size_t granted = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < selections; ++i) {
    const auto chosen = select(requests[static_cast<std::size_t>(i) % requests.size()], candidates, topology);
    granted += chosen ? chosen->size() : 0;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{{\"bench\": \"selection\", \"gpus\": {}, \"selections\": {}, \"granted\": {}, \"seconds\": {:.3f}}}\n",
             gpu_count, selections, granted, seconds);
}
