// A step of AdamW whose moments are kept in 8 bits, for one kind of lanes.
#pragma once

#include "kernels/coded/coded_adamw_job.hpp"
#include "kernels/optimizer_kernels.hpp"

namespace muster::kernels {

template <class L>
struct CodedAdamWKernels {
  // As it was coded; absent ones are zero.
  [[gnu::always_inline]] static L decoded(const MomentCodes& moment, std::int64_t place, std::int64_t left, L scale) {
    alignas(64) float values[16] = {};
    const std::uint8_t* codes = moment.codes + place;
    if (left >= 16) {
      for (int i = 0; i < 16; ++i) values[i] = moment.map->values[codes[i]];
    } else {
      for (std::int64_t i = 0; i < left; ++i) values[i] = moment.map->values[codes[i]];
    }
    return L::load(static_cast<const float*>(values)) * scale;
  }

  // The numbers of a block: the largest magnitude is its scale, and each is coded as its share of that.
  static void code(const MomentCodes& moment, std::int64_t block, float* numbers, std::int64_t count, float most) {
    moment.scales[block] = most;
    const L scale = L::broadcast(most);
    if (most > 0.0F) {  // else all of them are zero
      for (std::int64_t i = 0; i < count; i += 16) (L::load(numbers + i) / scale).store(numbers + i);
    }
    std::uint8_t* codes = moment.codes + block * coded_moment_block;
    const DynamicMap& map = *moment.map;
    for (std::int64_t i = 0; i < count; ++i) codes[i] = map.code_of(numbers[i]);
  }

  template <class Element>
  static void step_block(const CodedAdamWJob& job, std::int64_t block, std::int64_t count) {
    const AdamWJob& rule = job.rule;
    const std::int64_t start = block * coded_moment_block;
    auto* const parameters = static_cast<Element*>(rule.parameter) + start;
    const L kept = L::broadcast(rule.kept), first_share = L::broadcast(rule.first_share);
    const L beta2 = L::broadcast(rule.beta2), second_share = L::broadcast(rule.second_share);
    const L second_root = L::broadcast(rule.second_root), epsilon = L::broadcast(rule.epsilon);
    const L step_back = L::broadcast(-rule.step_size);
    const L first_scale = L::broadcast(job.first.scales[block]), second_scale = L::broadcast(job.second.scales[block]);
    alignas(64) float firsts[coded_moment_block], seconds[coded_moment_block];
    L first_most = L::broadcast(0.0F), second_most = first_most;
    for (std::int64_t i = 0; i < count; i += 16) {
      const std::int64_t left = count - i;
      const L gradient = OptimizerKernels<L>::gradient_at(rule.gradient, start + i, left);
      const L before = decoded(job.first, start + i, left, first_scale);
      const L first = L::fma(gradient - before, first_share, before);
      const L second =
          L::fma(gradient * second_share, gradient, decoded(job.second, start + i, left, second_scale) * beta2);
      const L divisor = L::square_root(second) / second_root + epsilon;
      const L parameter = load_some<L>(parameters + i, left) * kept;
      store_some(L::fma(first / divisor, step_back, parameter), parameters + i, left);
      first.store(firsts + i);
      second.store(seconds + i);
      first_most = L::larger_magnitude(first_most, first);
      second_most = L::larger_magnitude(second_most, second);
    }
    code(job.first, block, firsts, count, first_most.largest());
    code(job.second, block, seconds, count, second_most.largest());
  }

  // units: blocks of 256 elements
  static void step(const CodedAdamWJob& job, std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t left = job.rule.count - block * coded_moment_block;
      const std::int64_t count = left < coded_moment_block ? left : coded_moment_block;
      if (job.rule.state == Scalar::bfloat16)
        step_block<BFloat16>(job, block, count);
      else
        step_block<float>(job, block, count);
    }
  }
};

}  // namespace muster::kernels
