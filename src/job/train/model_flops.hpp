// How much of its devices' arithmetic a training run uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "spec/model/model_config.hpp"

namespace muster::job {

// Forward and backward for one token: six for each parameter that is multiplied by, and attention over half of a
// sequence, once forward and twice backward.
double flops_per_token(const spec::ModelConfig& config, std::int64_t parameters, std::int64_t sequence);

// The vendor's figures.
struct GpuSpeed {
  double flops = 0;      // a second, of dense products of 16-bit numbers
  double bandwidth = 0;  // bytes a second, of its memory
};

// Nothing where it is not known.
std::optional<GpuSpeed> gpu_speed(std::string_view gpu_name);

}  // namespace muster::job
