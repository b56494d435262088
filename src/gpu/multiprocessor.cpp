#include "gpu/multiprocessor.hpp"

#include <array>

namespace muster::gpu {
namespace {

struct Architecture {
  ComputeCapability capability;
  int cores;
};

// The CUDA programming guide's table of arithmetic throughput (32-bit floating point adds per clock).
constexpr std::array architectures{
    Architecture{{3, 0}, 192},  Architecture{{3, 5}, 192},  Architecture{{3, 7}, 192},  Architecture{{5, 0}, 128},
    Architecture{{5, 2}, 128},  Architecture{{5, 3}, 128},  Architecture{{6, 0}, 64},   Architecture{{6, 1}, 128},
    Architecture{{6, 2}, 128},  Architecture{{7, 0}, 64},   Architecture{{7, 2}, 64},   Architecture{{7, 5}, 64},
    Architecture{{8, 0}, 64},   Architecture{{8, 6}, 128},  Architecture{{8, 7}, 128},  Architecture{{8, 9}, 128},
    Architecture{{9, 0}, 128},  Architecture{{10, 0}, 128}, Architecture{{10, 3}, 128}, Architecture{{11, 0}, 128},
    Architecture{{12, 0}, 128}, Architecture{{12, 1}, 128},
};

}  // namespace

std::optional<int> cores_per_multiprocessor(ComputeCapability capability) {
  for (const Architecture& known : architectures)
    if (known.capability == capability) return known.cores;
  return std::nullopt;
}

}  // namespace muster::gpu
