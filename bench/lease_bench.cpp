// How long taking and giving back eight GPUs takes when nobody is in the way. Bar: a median of at most 1 ms.
//   lease_bench [--iterations 2000] [--folder DIR]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "lease/lease.hpp"
#include "testing/scratch_folder.hpp"

int main(int count, char** arguments) {
  const muster::testing::ScratchFolder scratch;
  std::filesystem::path folder = scratch.path() / "leases";
  std::size_t iterations = 2000;
  for (int at = 1; at < count; at += 2) {
    const std::string_view name = arguments[at];
    const std::string_view value = at + 1 < count ? arguments[at + 1] : "";
    if (const auto number = muster::parse_number<std::size_t>(value); name == "--iterations" && number && *number > 0) {
      iterations = *number;
    } else if (name == "--folder" && !value.empty()) {
      folder = value;
    } else {
      fmt::print(stderr, "usage: lease_bench [--iterations N] [--folder DIR]\n");
      return 2;
    }
  }

  using Milliseconds = std::chrono::duration<double, std::milli>;
  std::vector<muster::lease::ResourceName> names;
  for (int gpu = 0; gpu < 8; ++gpu) names.push_back(fmt::format("GPU-8932f937-d72c-4106-c12f-20bd9faed9f{}", gpu));
  muster::lease::LeaseTable table(folder);
  std::vector<Milliseconds> spans;
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    const auto began = std::chrono::steady_clock::now();
    {
      const auto lease = table.acquire(names, muster::lease::Purpose{"lease_bench"});
      if (!lease) {
        fmt::print(stderr, "{}\n", to_string(lease.error()));
        return 1;
      }
    }
    spans.push_back(std::chrono::steady_clock::now() - began);
  }
  std::ranges::sort(spans);
  const auto at = [&](double share) {
    return spans[static_cast<std::size_t>(share * double(spans.size() - 1))].count();
  };
  fmt::print(
      "{{\"benchmark\": \"lease_bench\", \"resources\": {}, \"iterations\": {}, \"median_ms\": {:.3f}, \"p99_ms\": "
      "{:.3f}, "
      "\"bar_ms\": 1.0}}\n",
      names.size(), iterations, at(0.5), at(0.99));
  return 0;
}
