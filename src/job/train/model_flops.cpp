#include "job/train/model_flops.hpp"

#include <array>

namespace muster::job {
namespace {

struct KnownGpu {
  std::string_view part_of_name;
  double teraflops;
  double gigabytes;  // a second
};
// The first match counts: longer names come before what they contain.
constexpr std::array known_gpus{
    KnownGpu{"B200", 2250, 8000}, KnownGpu{"GB200", 2500, 8000}, KnownGpu{"H200", 989, 4800},
    KnownGpu{"H100 PCIe", 756, 2000}, KnownGpu{"H100 NVL", 835, 3900}, KnownGpu{"H100", 989, 3350},
    KnownGpu{"H800", 989, 3350}, KnownGpu{"H20", 148, 4000}, KnownGpu{"A100", 312, 1555},
    KnownGpu{"A800", 312, 1555}, KnownGpu{"A40", 149.7, 696}, KnownGpu{"A30", 165, 933},
    KnownGpu{"A10G", 70, 600}, KnownGpu{"A10", 125, 600}, KnownGpu{"L40S", 362, 864},
    KnownGpu{"L40", 181, 864}, KnownGpu{"L4", 121, 300}, KnownGpu{"V100", 125, 900},
    KnownGpu{"T4", 65, 320}, KnownGpu{"RTX 6000 Ada", 364, 960}, KnownGpu{"RTX 4090", 165.2, 1008},
    KnownGpu{"RTX 3090", 71, 936}, KnownGpu{"RTX 5090", 209.5, 1792}};

}  // namespace

double flops_per_token(const spec::ModelConfig& config, std::int64_t parameters, std::int64_t sequence) {
  // Looking an embedding up multiplies nothing; a tied one is the head's matrix.
  const std::int64_t looked_up = config.tied ? 0 : config.vocabulary * config.hidden;
  const double multiplied = static_cast<double>(parameters - looked_up);
  const double attention = 6.0 * static_cast<double>(config.layers) * static_cast<double>(config.query_width()) *
                           static_cast<double>(sequence);
  return 6.0 * multiplied + attention;
}

std::optional<GpuSpeed> gpu_speed(std::string_view gpu_name) {
  for (const KnownGpu& known : known_gpus)
    if (gpu_name.find(known.part_of_name) != gpu_name.npos) return GpuSpeed{known.teraflops * 1e12, known.gigabytes * 1e9};
  return std::nullopt;
}

}  // namespace muster::job
