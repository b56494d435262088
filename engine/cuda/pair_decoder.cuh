// Codes of packed weights on their way to tensor cores: two at a time become two 16-bit numbers in one word.
//
// Note [Pairs of codes]
// Of 4 bits, a byte holds the codes of two consecutive inputs. A table in shared memory has the pair of numbers for
// each of the 256 bytes, and has it once for every lane, so that no two lanes ever want the same bank: a pair costs one
// byte permutation, which makes the place in the table, and one read. The numbers are the codes' values rounded to the
// type that is computed in; scales are taken when a run of inputs has been summed up, in float32.
// Of 8 bits, codes are whole numbers that both types hold exactly.
#pragma once

#include <type_traits>

#include "cuda/packed_codes.cuh"

namespace muster::cuda {

template <class T>
__device__ unsigned narrow_pair(float low, float high) {
  unsigned both;
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&both, &pair, sizeof(both));
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    memcpy(&both, &pair, sizeof(both));
  }
  return both;
}

template <class T, bool bytes>
class PairDecoder;

template <class T>
class PairDecoder<T, false> {
 public:
  // Rows are so far apart that a row's place is the byte itself, moved by a byte.
  static constexpr unsigned row_bytes = 256;
  static constexpr unsigned table_bytes = 256 * row_bytes;

  // table: in shared memory; filled by `fill`, and a barrier.
  __device__ explicit PairDecoder(const unsigned char* table)
      : table_(table), lane_place_(threadIdx.x % lanes * sizeof(unsigned)) {}

  __device__ static void fill(unsigned char* table, const float (&values)[16]) {
    constexpr unsigned copies = sizeof(uint4) / sizeof(unsigned);
    for (unsigned at = threadIdx.x; at < 256 * (lanes / copies); at += blockDim.x) {
      const unsigned codes = at / (lanes / copies);
      const unsigned both = narrow_pair<T>(values[codes % 16], values[codes / 16]);
      reinterpret_cast<uint4*>(table + codes * row_bytes)[at % (lanes / copies)] = {both, both, both, both};
    }
  }

  // Inputs 2 · two and the next of an output of the quad.
  __device__ unsigned pair(const Codes<false>& codes, int output, int two) const {
    const unsigned place = __byte_perm(part(codes.words[0], output), lane_place_,
                                       0x5504u | static_cast<unsigned>(two) << 4);
    return *reinterpret_cast<const unsigned*>(table_ + place);
  }

 private:
  const unsigned char* table_;
  unsigned lane_place_;
};

template <class T>
class PairDecoder<T, true> {
 public:
  static constexpr unsigned table_bytes = 0;

  __device__ explicit PairDecoder(const unsigned char*) {}
  __device__ static void fill(unsigned char*, const float (&)[16]) {}

  __device__ unsigned pair(const Codes<true>& codes, int output, int two) const {
    const unsigned word = part(codes.words[two / 2], output) ^ 0x80808080u;
    return narrow_exactly(number(word, two % 2 * 2), number(word, two % 2 * 2 + 1));
  }

 private:
  // 2^23 + code + 128, put together from its bytes.
  __device__ static float number(unsigned word, int at) {
    return __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7650u + static_cast<unsigned>(at))) - 8388736.0f;
  }
  // bfloat16 is the upper half of a float32, which for whole numbers up to 256 is all of it.
  __device__ static unsigned narrow_exactly(float low, float high) {
    if constexpr (std::is_same_v<T, __half>)
      return narrow_pair<T>(low, high);
    else
      return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632u);
  }
};

}  // namespace muster::cuda
