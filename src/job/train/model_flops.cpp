#include "job/train/model_flops.hpp"

#include <array>

namespace muster::job {
namespace {

struct KnownGpu {
  std::string_view part_of_name;
  double teraflops;
};
// The first match counts: longer names come before what they contain.
constexpr std::array known_gpus{
    KnownGpu{"B200", 2250},      KnownGpu{"GB200", 2500},  KnownGpu{"H200", 989},      KnownGpu{"H100 PCIe", 756},
    KnownGpu{"H100 NVL", 835},   KnownGpu{"H100", 989},    KnownGpu{"H800", 989},      KnownGpu{"H20", 148},
    KnownGpu{"A100", 312},       KnownGpu{"A800", 312},    KnownGpu{"A40", 149.7},     KnownGpu{"A30", 165},
    KnownGpu{"A10G", 70},        KnownGpu{"A10", 125},     KnownGpu{"L40S", 362},      KnownGpu{"L40", 181},
    KnownGpu{"L4", 121},         KnownGpu{"V100", 125},    KnownGpu{"T4", 65},         KnownGpu{"RTX 6000 Ada", 364},
    KnownGpu{"RTX 4090", 165.2}, KnownGpu{"RTX 3090", 71}, KnownGpu{"RTX 5090", 209.5}};

}  // namespace

double flops_per_token(const spec::ModelConfig& config, std::int64_t parameters, std::int64_t sequence) {
  // Looking an embedding up multiplies nothing; a tied one is the head's matrix.
  const std::int64_t looked_up = config.tied ? 0 : config.vocabulary * config.hidden;
  const double multiplied = static_cast<double>(parameters - looked_up);
  const double attention = 6.0 * static_cast<double>(config.layers) * static_cast<double>(config.query_width()) *
                           static_cast<double>(sequence);
  return 6.0 * multiplied + attention;
}

std::optional<double> peak_flops(std::string_view gpu_name) {
  for (const KnownGpu& known : known_gpus)
    if (gpu_name.find(known.part_of_name) != gpu_name.npos) return known.teraflops * 1e12;
  return std::nullopt;
}

}  // namespace muster::job
