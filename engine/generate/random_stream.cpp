#include "generate/random_stream.hpp"

namespace muster::generate {
namespace {

// A bijection of 64 bits in which every input bit changes every output bit half of the time.
std::uint64_t mix(std::uint64_t bits) {
  bits ^= bits >> 30;
  bits *= 0xbf58476d1ce4e5b9u;
  bits ^= bits >> 27;
  bits *= 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

}  // namespace

double RandomStream::uniform(std::uint64_t step) const {
  std::uint64_t state = 0x9e3779b97f4a7c15u;
  for (const std::uint64_t word : {seed, prompt, sample, step}) state = mix(state ^ mix(word + 0x9e3779b97f4a7c15u));
  return static_cast<double>(state >> 11) * 0x1p-53;
}

}  // namespace muster::generate
