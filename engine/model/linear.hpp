// A linear layer: one weight, perhaps a bias, perhaps low-rank adapters. Layers that read the same input are joined in
// one, so that it is read once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/parameter_access.hpp"
#include "model/pass.hpp"
#include "spec/model/activation.hpp"
#include "tensor/device_ops.hpp"

namespace muster::model {

// How often parameters of a model were given numbers: what was computed of them may be kept until then.
using ChangeCount = std::shared_ptr<std::int64_t>;

// DoRA's part of an adapter: each output is scaled by magnitude / norm, where norm is the length of the row of
// W + scale · B·A that gives it, a constant in the backward pass.
struct Decomposition {
  at::Tensor magnitude;  // [outputs], float32
  ParameterId magnitude_id{};

  ChangeCount changes;
  struct Kept {
    at::Tensor norms;  // [outputs], float32
    std::int64_t as_of = -1;
  };
  std::shared_ptr<Kept> kept = std::make_shared<Kept>();
};

// scale · B·(A·x) is added to consecutive outputs of the layer.
struct Adapter {
  std::int64_t number = 0;  // among those that rows choose from
  std::int64_t first_output = 0;
  double scale = 1;
  tensor::Weight down = {};  // A: [rank, inputs]
  tensor::Weight up = {};    // B: [outputs of its part, rank]
  ParameterId down_id{}, up_id{};
  std::optional<Decomposition> decomposition = {};  // absent: LoRA

  std::int64_t outputs() const { return up.outputs; }
};

// What each adapter makes of an input: scale · A·x, [rows, rank].
using NarrowRows = std::vector<at::Tensor>;

// The gradient of a layer's outputs, and what it is to the adapters.
struct OutputGradient {
  at::Tensor rows;
  struct OfAdapter {
    at::Tensor part;    // of its outputs, before they are scaled, of the type of the layer's
    at::Tensor narrow;  // of A·x: [rows, rank]
  };
  std::vector<OfAdapter> adapters;
};

struct Linear {
  tensor::Weight weight;
  at::Tensor bias;  // undefined where there is none
  std::vector<Adapter> adapters;
  ParameterId weight_id{};
  ParameterId bias_id{};

  // kept: for the gradient.
  at::Tensor forward(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input,
                     NarrowRows* kept = nullptr) const;
  // base + the output. overwrites: in the place of base.
  at::Tensor forward_add(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input, const at::Tensor& base,
                         bool overwrites, NarrowRows* kept = nullptr) const;
  // activation(first half of the outputs) * the second, in one; undefined where that is no faster than by itself.
  at::Tensor forward_gated(tensor::DeviceOps& ops, spec::Activation activation, const at::Tensor& input) const;
  OutputGradient output_gradient(tensor::DeviceOps& ops, const at::Tensor& rows) const;
  at::Tensor input_gradient(tensor::DeviceOps& ops, const Pass& pass, const OutputGradient& gradient) const;
  // Adds the gradients of what is trained to their sums.
  void add_gradients(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input, const NarrowRows& narrow,
                     const OutputGradient& gradient, ParameterAccess& access) const;
  // Both; returns the gradient of the input.
  at::Tensor backward(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input, const NarrowRows& narrow,
                      const at::Tensor& gradient_rows, ParameterAccess& access) const {
    const OutputGradient gradient = output_gradient(ops, gradient_rows);
    add_gradients(ops, pass, input, narrow, gradient, access);
    return input_gradient(ops, pass, gradient);
  }

 private:
  // Adds what the adapters give to the layer's output.
  void add_adapters(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input, at::Tensor& output,
                    NarrowRows* kept) const;
  void add_decomposed(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input, at::Tensor& output,
                      NarrowRows* kept) const;
};

}  // namespace muster::model
