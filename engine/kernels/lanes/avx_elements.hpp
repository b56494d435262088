// Eight stored elements to and from a register, and transposition of blocks: shared by the AVX2 and AVX-512 lanes. The
// parameter keeps the two compilations apart, so that the linker never merges code of one set into the other.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/scalar.hpp"

namespace muster::kernels {

template <class Lanes>
struct AvxElements {
  static __m256 load(const float* source) { return _mm256_loadu_ps(source); }
  static __m256 load(const BFloat16* source) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static __m256 load(const Float16* source) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
  }
  static __m256 load(const std::int8_t* source) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(source))));
  }

  static void store(__m256 value, float* target) { _mm256_storeu_ps(target, value); }
  static void store(__m256 value, BFloat16* target) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i kept = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), packed);
  }
  static void store(__m256 value, Float16* target) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }

  // target[k * rows + r] = sources[r][k] for k < length. Eight of k at a time: each is stored as eight or sixteen
  // floats, and what that leaves beyond its rows is overwritten by the next.
  template <int rows>
  static void interleave(const float* const* sources, std::int64_t length, float* target) {
    static_assert(rows <= 16);
    constexpr int first = rows < 8 ? rows : 8;
    constexpr int width = rows <= 8 ? 8 : 16;
    std::int64_t k = 0;
    for (; (k + 7) * rows + width <= length * rows; k += 8) {
      __m256 low[8], high[8];
      turned_rows<first>(sources, k, low);
      if constexpr (rows > 8) turned_rows<rows - 8>(sources + 8, k, high);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        float* place = target + (k + i) * rows;
        _mm256_storeu_ps(place, low[i]);
        if constexpr (rows > 8) _mm256_storeu_ps(place + 8, high[i]);
      }
    }
    for (; k < length; ++k) {
      for (int r = 0; r < rows; ++r) target[k * rows + r] = sources[r][k];
    }
  }

  template <class Element>
  static void transpose(const Element* source, std::int64_t stride, float* target) {
    transpose_eight(source, stride, target);
    transpose_eight(source + 8, stride, target + 128);
    transpose_eight(source + 8 * stride, stride, target + 8);
    transpose_eight(source + 8 * stride + 8, stride, target + 136);
  }

 private:
  // values[i] becomes what is at i of each.
  [[gnu::always_inline]] static void turn_eight(__m256 (&values)[8]) {
    __m256 pairs[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      pairs[2 * i] = _mm256_unpacklo_ps(values[2 * i], values[2 * i + 1]);
      pairs[2 * i + 1] = _mm256_unpackhi_ps(values[2 * i], values[2 * i + 1]);
    }
    __m256 fours[8];
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
      fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      values[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
      values[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
  }

  // turned[i][r] = sources[r][k + i] for r < rows; other lanes are zero.
  template <int rows>
  [[gnu::always_inline]] static void turned_rows(const float* const* sources, std::int64_t k, __m256 (&turned)[8]) {
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) turned[r] = r < rows ? load(sources[r] + k) : _mm256_setzero_ps();
    turn_eight(turned);
  }

  // target[j * 16 + i] = source[i * stride + j] for i, j < 8.
  template <class Element>
  static void transpose_eight(const Element* source, std::int64_t stride, float* target) {
    __m256 values[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) values[i] = load(source + i * stride);
    turn_eight(values);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) _mm256_storeu_ps(target + i * 16, values[i]);
  }
};

}  // namespace muster::kernels
