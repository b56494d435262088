#include "generate/random_stream.hpp"

#include "base/bit_mix.hpp"

namespace muster::generate {

double RandomStream::uniform(std::uint64_t step) const {
  std::uint64_t state = 0x9e3779b97f4a7c15u;
  for (const std::uint64_t word : {seed, prompt, sample, step})
    state = mix_bits(state ^ mix_bits(word + 0x9e3779b97f4a7c15u));
  return static_cast<double>(state >> 11) * 0x1p-53;
}

}  // namespace muster::generate
