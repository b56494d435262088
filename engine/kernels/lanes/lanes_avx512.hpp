// lanes_portable.hpp in AVX-512: sixteen float32 in one register.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/lanes/avx_elements.hpp"
#include "kernels/scalar.hpp"

namespace muster::kernels {

struct Avx512Lanes {
  __m512 all;

  // Twenty-four of the thirty-two registers hold sums.
  static constexpr int tile_rows = 12;
  static constexpr int panels_at_once(int rows) { return rows == 1 ? 8 : rows <= 6 ? 4 : 2; }

  static Avx512Lanes broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static Avx512Lanes indices() { return {_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)}; }
  static Avx512Lanes load(const float* source) { return {_mm512_loadu_ps(source)}; }
  static Avx512Lanes load(const BFloat16* source) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  static Avx512Lanes load(const Float16* source) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)))};
  }
  static Avx512Lanes load(const std::int8_t* source) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  }

  struct Words {
    __m512i all;
  };
  static Words load_words(const std::uint32_t* source) { return {_mm512_loadu_si512(source)}; }
  template <int place>
  static Avx512Lanes look_up(Avx512Lanes table, Words words) {
    return {_mm512_permutexvar_ps(_mm512_srli_epi32(words.all, 4 * place), table.all)};
  }

  void store(float* target) const { _mm512_storeu_ps(target, all); }
  template <class Element>
  void store(Element* target) const {
    AvxElements<Avx512Lanes>::store(lower_half(), target);
    AvxElements<Avx512Lanes>::store(upper_half(), target + 8);
  }

  friend Avx512Lanes operator+(Avx512Lanes a, Avx512Lanes b) { return {_mm512_add_ps(a.all, b.all)}; }
  friend Avx512Lanes operator-(Avx512Lanes a, Avx512Lanes b) { return {_mm512_sub_ps(a.all, b.all)}; }
  friend Avx512Lanes operator*(Avx512Lanes a, Avx512Lanes b) { return {_mm512_mul_ps(a.all, b.all)}; }
  friend Avx512Lanes operator/(Avx512Lanes a, Avx512Lanes b) { return {_mm512_div_ps(a.all, b.all)}; }
  static Avx512Lanes fma(Avx512Lanes a, Avx512Lanes b, Avx512Lanes c) { return {_mm512_fmadd_ps(a.all, b.all, c.all)}; }
  static Avx512Lanes maximum(Avx512Lanes a, Avx512Lanes b) { return {_mm512_max_ps(a.all, b.all)}; }
  static Avx512Lanes minimum(Avx512Lanes a, Avx512Lanes b) { return {_mm512_min_ps(a.all, b.all)}; }
  static Avx512Lanes square_root(Avx512Lanes a) { return {_mm512_sqrt_ps(a.all)}; }
  static Avx512Lanes absolute(Avx512Lanes a) {
    return {_mm512_castsi512_ps(_mm512_and_epi32(_mm512_castps_si512(a.all), _mm512_set1_epi32(0x7FFFFFFF)))};
  }
  static Avx512Lanes where_less(Avx512Lanes a, Avx512Lanes b, Avx512Lanes x, Avx512Lanes y) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.all, b.all, _CMP_LT_OQ), y.all, x.all)};
  }
  static Avx512Lanes scale_by_power(Avx512Lanes y, Avx512Lanes n) {
    const __m512i whole = _mm512_cvtps_epi32(n.all);
    const __m512i half = _mm512_srai_epi32(whole, 1);
    return {_mm512_mul_ps(_mm512_mul_ps(y.all, power_of_two(half)), power_of_two(_mm512_sub_epi32(whole, half)))};
  }
  static void split_exponent(Avx512Lanes x, Avx512Lanes& mantissa, Avx512Lanes& exponent) {
    const __m512i root_half = _mm512_set1_epi32(0x3F3504F3);
    const __m512i bits = _mm512_sub_epi32(_mm512_castps_si512(x.all), root_half);
    exponent.all = _mm512_cvtepi32_ps(_mm512_srai_epi32(bits, 23));
    mantissa.all =
        _mm512_castsi512_ps(_mm512_add_epi32(_mm512_and_epi32(bits, _mm512_set1_epi32(0x7FFFFF)), root_half));
  }

  float sum() const {
    const __m256 eight = _mm256_add_ps(lower_half(), upper_half());
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  float largest() const {
    const __m256 eight = _mm256_max_ps(lower_half(), upper_half());
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static Avx512Lanes larger_magnitude(Avx512Lanes most, Avx512Lanes x) {
    return {_mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(most.all), _mm512_castps_si512(absolute(x).all)))};
  }
  bool are_below(float limit) const { return _mm512_cmp_ps_mask(all, _mm512_set1_ps(limit), _CMP_LT_OQ) == 0xFFFF; }
  void add_exactly(std::int64_t* sums) const {
    add_eight(lower_half(), sums);
    add_eight(upper_half(), sums + 8);
  }

  template <int rows>
  static void interleave(const float* const* sources, std::int64_t length, float* target) {
    AvxElements<Avx512Lanes>::template interleave<rows>(sources, length, target);
  }
  template <class Element>
  static void transpose(const Element* source, std::int64_t stride, float* target) {
    AvxElements<Avx512Lanes>::transpose(source, stride, target);
  }

 private:
  // The last bit of a float64 between 256 and 512 is 2^-44: the addition rounds, and the bits count.
  static void add_eight(__m256 terms, std::int64_t* sums) {
    const __m512d origin = _mm512_set1_pd(384.0);
    const __m512i placed = _mm512_castpd_si512(_mm512_add_pd(_mm512_cvtps_pd(terms), origin));
    const __m512i multiples = _mm512_sub_epi64(placed, _mm512_castpd_si512(origin));
    _mm512_storeu_si512(sums, _mm512_add_epi64(_mm512_loadu_si512(sums), multiples));
  }
  __m256 lower_half() const { return _mm512_castps512_ps256(all); }
  __m256 upper_half() const { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(all), 1)); }
  static __m512 power_of_two(__m512i n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
  }
};

}  // namespace muster::kernels
