// lanes_portable.hpp in AVX2, FMA and F16C: sixteen float32 in two registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/lanes/avx_elements.hpp"
#include "kernels/scalar.hpp"

namespace muster::kernels {

struct Avx2Lanes {
  __m256 low, high;

  // Twelve of the sixteen registers hold sums, two a row of the panel, one an input.
  static constexpr int tile_rows = 6;
  static constexpr int panels_at_once(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

  static Avx2Lanes broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Avx2Lanes indices() {
    return {_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15)};
  }
  template <class Element>
  static Avx2Lanes load(const Element* source) {
    return {AvxElements<Avx2Lanes>::load(source), AvxElements<Avx2Lanes>::load(source + 8)};
  }

  struct Words {
    __m256i low, high;
  };
  static Words load_words(const std::uint32_t* source) {
    const auto* const halves = reinterpret_cast<const __m256i*>(source);
    return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
  }
  template <int place>
  static Avx2Lanes look_up(Avx2Lanes table, Words words) {
    return {look_up_half<place>(table, words.low), look_up_half<place>(table, words.high)};
  }

  template <class Element>
  void store(Element* target) const {
    AvxElements<Avx2Lanes>::store(low, target);
    AvxElements<Avx2Lanes>::store(high, target + 8);
  }

  friend Avx2Lanes operator+(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  friend Avx2Lanes operator-(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  friend Avx2Lanes operator*(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  friend Avx2Lanes operator/(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  static Avx2Lanes fma(Avx2Lanes a, Avx2Lanes b, Avx2Lanes c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static Avx2Lanes maximum(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  static Avx2Lanes minimum(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }
  static Avx2Lanes square_root(Avx2Lanes a) { return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)}; }
  static Avx2Lanes absolute(Avx2Lanes a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
  }
  static Avx2Lanes where_less(Avx2Lanes a, Avx2Lanes b, Avx2Lanes x, Avx2Lanes y) {
    return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
            _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
  }
  static Avx2Lanes scale_by_power(Avx2Lanes y, Avx2Lanes n) {
    return {scale_half(y.low, n.low), scale_half(y.high, n.high)};
  }
  static void split_exponent(Avx2Lanes x, Avx2Lanes& mantissa, Avx2Lanes& exponent) {
    split_half(x.low, mantissa.low, exponent.low);
    split_half(x.high, mantissa.high, exponent.high);
  }

  float sum() const {
    const __m256 eight = _mm256_add_ps(low, high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  float largest() const {
    const __m256 eight = _mm256_max_ps(low, high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static Avx2Lanes larger_magnitude(Avx2Lanes most, Avx2Lanes x) {
    return {larger_bits(most.low, absolute(x).low), larger_bits(most.high, absolute(x).high)};
  }
  bool are_below(float limit) const {
    const __m256 bound = _mm256_set1_ps(limit);
    const __m256 both = _mm256_and_ps(_mm256_cmp_ps(low, bound, _CMP_LT_OQ), _mm256_cmp_ps(high, bound, _CMP_LT_OQ));
    return _mm256_movemask_ps(both) == 0xFF;
  }
  void add_exactly(std::int64_t* sums) const {
    add_four(_mm256_castps256_ps128(low), sums);
    add_four(_mm256_extractf128_ps(low, 1), sums + 4);
    add_four(_mm256_castps256_ps128(high), sums + 8);
    add_four(_mm256_extractf128_ps(high, 1), sums + 12);
  }

  template <int rows>
  static void interleave(const float* const* sources, std::int64_t length, float* target) {
    AvxElements<Avx2Lanes>::template interleave<rows>(sources, length, target);
  }
  template <class Element>
  static void transpose(const Element* source, std::int64_t stride, float* target) {
    AvxElements<Avx2Lanes>::transpose(source, stride, target);
  }

 private:
  // The lowest three bits of a nibble choose within a half of the table, the fourth chooses the half.
  template <int place>
  static __m256 look_up_half(Avx2Lanes table, __m256i words) {
    const __m256i index = _mm256_srli_epi32(words, 4 * place);
    const __m256 is_upper = _mm256_castsi256_ps(_mm256_slli_epi32(words, 28 - 4 * place));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.low, index), _mm256_permutevar8x32_ps(table.high, index),
                            is_upper);
  }
  static __m256 larger_bits(__m256 a, __m256 b) {
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  // The last bit of a float64 between 256 and 512 is 2^-44: the addition rounds, and the bits count.
  static void add_four(__m128 terms, std::int64_t* sums) {
    const __m256d origin = _mm256_set1_pd(384.0);
    const __m256i placed = _mm256_castpd_si256(_mm256_add_pd(_mm256_cvtps_pd(terms), origin));
    const __m256i multiples = _mm256_sub_epi64(placed, _mm256_castpd_si256(origin));
    auto* const target = reinterpret_cast<__m256i*>(sums);
    _mm256_storeu_si256(target, _mm256_add_epi64(_mm256_loadu_si256(target), multiples));
  }
  static __m256 power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  static __m256 scale_half(__m256 y, __m256 n) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(y, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
  }
  static void split_half(__m256 x, __m256& mantissa, __m256& exponent) {
    const __m256i root_half = _mm256_set1_epi32(0x3F3504F3);
    const __m256i bits = _mm256_sub_epi32(_mm256_castps_si256(x), root_half);
    exponent = _mm256_cvtepi32_ps(_mm256_srai_epi32(bits, 23));
    mantissa = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFF)), root_half));
  }
};

}  // namespace muster::kernels
