// Operations on elements for one kind of lanes: blocks of 256 are widened, computed in float32 and stored.
#pragma once

#include "kernels/activation_kernels.hpp"
#include "kernels/pointwise_job.hpp"
#include "kernels/row_access.hpp"

namespace muster::kernels {

template <class L>
struct PointwiseKernels {
  struct Block {
    std::int64_t input = 0;   // where it begins in first, second and their gradients
    std::int64_t output = 0;  // in output and its gradient
    std::int64_t count = 0;
  };

  template <class Element>
  static void read(const void* source, std::int64_t place, std::int64_t count, float* target) {
    const Element* elements = static_cast<const Element*>(source) + place;
    for (std::int64_t i = 0; i < count; i += 16) load_some<L>(elements + i, count - i).store(target + i);
  }

  template <class Element>
  static void write(const float* source, void* target, std::int64_t place, std::int64_t count) {
    Element* elements = static_cast<Element*>(target) + place;
    for (std::int64_t i = 0; i < count; i += 16) store_some(L::load(source + i), elements + i, count - i);
  }

  static void multiply(float* values, const float* factors, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) (L::load(values + i) * L::load(factors + i)).store(values + i);
  }

  template <class Element>
  static void round(float* values, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) rounded<L, Element>(L::load(values + i)).store(values + i);
  }

  template <class Element>
  static void add_block(const PointwiseJob& job, const Block& block) {
    const auto* first = static_cast<const Element*>(job.first) + block.input;
    const auto* second = static_cast<const Element*>(job.second) + block.input;
    auto* output = static_cast<Element*>(job.output) + block.output;
    for (std::int64_t i = 0; i < block.count; i += 16) {
      const std::int64_t left = block.count - i;
      store_some(load_some<L>(first + i, left) + load_some<L>(second + i, left), output + i, left);
    }
  }

  template <class Element>
  static void activate_block(const PointwiseJob& job, const Block& block) {
    alignas(64) float values[pointwise_block];
    const ActivationFunctions functions = activation_functions<L>(job.activation);
    read<Element>(job.first, block.input, block.count, values);
    if (job.operation == PointwiseOperation::activate) {
      functions.value(values, block.count);
    } else {
      alignas(64) float gradient[pointwise_block];
      read<Element>(job.gradient, block.output, block.count, gradient);
      functions.slope(values, block.count);
      multiply(values, gradient, block.count);
    }
    write<Element>(values, job.output, block.output, block.count);
  }

  template <class Element>
  static void gate_block(const PointwiseJob& job, const Block& block) {
    alignas(64) float gate[pointwise_block];
    alignas(64) float up[pointwise_block];
    read<Element>(job.first, block.input, block.count, gate);
    read<Element>(job.second, block.input, block.count, up);
    activation_functions<L>(job.activation).value(gate, block.count);
    round<Element>(gate, block.count);
    multiply(gate, up, block.count);
    write<Element>(gate, job.output, block.output, block.count);
  }

  template <class Element>
  static void gate_block_back(const PointwiseJob& job, const Block& block) {
    alignas(64) float gate[pointwise_block];
    alignas(64) float slope[pointwise_block];
    alignas(64) float up[pointwise_block];
    alignas(64) float gradient[pointwise_block];
    const ActivationFunctions functions = activation_functions<L>(job.activation);
    read<Element>(job.first, block.input, block.count, gate);
    read<Element>(job.first, block.input, block.count, slope);
    read<Element>(job.second, block.input, block.count, up);
    read<Element>(job.gradient, block.output, block.count, gradient);
    functions.value(gate, block.count);
    round<Element>(gate, block.count);
    functions.slope(slope, block.count);
    multiply(gate, gradient, block.count);
    multiply(up, gradient, block.count);
    multiply(slope, up, block.count);
    write<Element>(slope, job.output, block.input, block.count);
    write<Element>(gate, job.second_output, block.input, block.count);
  }

  template <class Element>
  static void apply_block(const PointwiseJob& job, const Block& block) {
    switch (job.operation) {
      case PointwiseOperation::add:
        return add_block<Element>(job, block);
      case PointwiseOperation::convert: {
        alignas(64) float values[pointwise_block];
        read<Element>(job.first, block.input, block.count, values);
        with_element(job.to, [&](auto to) { write<decltype(to)>(values, job.output, block.output, block.count); });
        return;
      }
      case PointwiseOperation::activate:
      case PointwiseOperation::activate_back:
        return activate_block<Element>(job, block);
      case PointwiseOperation::gate:
        return gate_block<Element>(job, block);
      case PointwiseOperation::gate_back:
        return gate_block_back<Element>(job, block);
    }
  }

  // units: (row, block of 256 columns)
  static void apply(const PointwiseJob& job, std::int64_t begin, std::int64_t end) {
    with_element(job.io, [&](auto element) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t row = unit / job.row_blocks();
        const std::int64_t column = unit % job.row_blocks() * pointwise_block;
        const std::int64_t left = job.columns - column;
        apply_block<decltype(element)>(job, {row * job.stride + column, row * job.columns + column,
                                             left < pointwise_block ? left : pointwise_block});
      }
    });
  }
};

}  // namespace muster::kernels
