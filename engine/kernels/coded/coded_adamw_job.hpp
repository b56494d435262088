// What threads share of a step of AdamW whose moments are kept in 8 bits. Inside this layer only.
#pragma once

#include <cstdint>

#include "kernels/coded/dynamic_map.hpp"
#include "kernels/optimizer_job.hpp"

namespace muster::kernels {

constexpr std::int64_t coded_moment_block = 256;

// A moment: a code for each element, and what the values of its block are multiplied by.
struct MomentCodes {
  const DynamicMap* map = nullptr;
  std::uint8_t* codes = nullptr;
  float* scales = nullptr;
};

struct CodedAdamWJob {
  AdamWJob rule;  // without its moments
  MomentCodes first;
  MomentCodes second;
};

}  // namespace muster::kernels
