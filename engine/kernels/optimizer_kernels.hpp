// Steps of an optimizer for one kind of lanes.
#pragma once

#include "kernels/optimizer_job.hpp"
#include "kernels/row_access.hpp"

namespace muster::kernels {

template <class L>
struct OptimizerKernels {
  [[gnu::always_inline]] static L gradient_at(const GradientSource& source, std::int64_t place, std::int64_t left) {
    if (source.sum.values != nullptr) return load_some<L>(source.sum.values + place, left) * L::broadcast(source.scale);
    if (source.sum.rounded != nullptr)
      return load_some<L>(source.sum.rounded + place, left) * L::broadcast(source.scale);
    alignas(64) float numbers[16] = {};
    const std::int64_t* multiples = source.sum.multiples + place;
    if (left >= 16) {
      for (int i = 0; i < 16; ++i) numbers[i] = number_of(multiples[i], source.multiple);
    } else {
      for (std::int64_t i = 0; i < left; ++i) numbers[i] = number_of(multiples[i], source.multiple);
    }
    return L::load(static_cast<const float*>(numbers));
  }
  [[gnu::always_inline]] static float number_of(std::int64_t multiples, double multiple) {
    return static_cast<float>(static_cast<double>(multiples) * multiple);
  }

  template <class Element>
  static void step_adamw(const AdamWJob& job, std::int64_t begin, std::int64_t end) {
    auto* const parameters = static_cast<Element*>(job.parameter);
    auto* const firsts = static_cast<Element*>(job.first_moment);
    auto* const seconds = static_cast<Element*>(job.second_moment);
    const L kept = L::broadcast(job.kept), first_share = L::broadcast(job.first_share);
    const L beta2 = L::broadcast(job.beta2), second_share = L::broadcast(job.second_share);
    const L second_root = L::broadcast(job.second_root), epsilon = L::broadcast(job.epsilon);
    const L step_back = L::broadcast(-job.step_size);
    for (std::int64_t place = begin * 16; place < end * 16 && place < job.count; place += 16) {
      const std::int64_t left = job.count - place;
      const L gradient = gradient_at(job.gradient, place, left);
      const L before = load_some<L>(firsts + place, left);
      const L first = L::fma(gradient - before, first_share, before);
      const L second = L::fma(gradient * second_share, gradient, load_some<L>(seconds + place, left) * beta2);
      const L divisor = L::square_root(second) / second_root + epsilon;
      const L parameter = load_some<L>(parameters + place, left) * kept;
      store_some(first, firsts + place, left);
      store_some(second, seconds + place, left);
      store_some(L::fma(first / divisor, step_back, parameter), parameters + place, left);
    }
  }

  // units: sixteen elements
  static void adamw(const AdamWJob& job, std::int64_t begin, std::int64_t end) {
    if (job.state == Scalar::bfloat16)
      step_adamw<BFloat16>(job, begin, end);
    else
      step_adamw<float>(job, begin, end);
  }

  template <class Element>
  static void step_sgd(const SgdJob& job, std::int64_t begin, std::int64_t end) {
    auto* const parameters = static_cast<Element*>(job.parameter);
    auto* const momentum = static_cast<Element*>(job.momentum);
    const L step_back = L::broadcast(-job.rate), decay = L::broadcast(job.decay);
    const L kept_momentum = L::broadcast(job.kept_momentum);
    for (std::int64_t place = begin * 16; place < end * 16 && place < job.count; place += 16) {
      const std::int64_t left = job.count - place;
      const L parameter = load_some<L>(parameters + place, left);
      L direction = L::fma(parameter, decay, gradient_at(job.gradient, place, left));
      if (momentum != nullptr) {
        if (!job.first) direction = L::fma(load_some<L>(momentum + place, left), kept_momentum, direction);
        store_some(direction, momentum + place, left);
      }
      store_some(L::fma(direction, step_back, parameter), parameters + place, left);
    }
  }

  // units: sixteen elements
  static void sgd(const SgdJob& job, std::int64_t begin, std::int64_t end) {
    if (job.state == Scalar::bfloat16)
      step_sgd<BFloat16>(job, begin, end);
    else
      step_sgd<float>(job, begin, end);
  }

  template <class Value, class Number>
  static double square_block(const Value* values, std::int64_t count, Number&& number) {
    double sums[16] = {};
    std::int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
      for (int j = 0; j < 16; ++j) sums[j] += number(values[i + j]) * number(values[i + j]);
    }
    for (int j = 0; i + j < count; ++j) sums[j] += number(values[i + j]) * number(values[i + j]);
    for (int width = 8; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) sums[j] += sums[j + width];
    }
    return sums[0];
  }

  // units: blocks of 256 elements
  static void sum_squares(const SquaresJob& job, std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t place = block * squares_block;
      const std::int64_t left = job.count - place;
      const std::int64_t count = left < squares_block ? left : squares_block;
      if (job.sum.multiples != nullptr) {
        job.blocks[block] = square_block(job.sum.multiples + place, count,
                                         [](std::int64_t value) { return static_cast<double>(value) * 0x1p-44; });
        continue;
      }
      with_values(job.sum, [&](auto* values) {
        job.blocks[block] =
            square_block(values + place, count, [](auto value) { return static_cast<double>(widen(value)); });
      });
    }
  }
};

}  // namespace muster::kernels
