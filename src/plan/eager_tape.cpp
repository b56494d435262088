#include "plan/eager_tape.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace muster::plan {

std::int64_t sum(const Held& held) { return std::accumulate(held.begin(), held.end(), std::int64_t{0}); }

void MemoryMeter::take(Holding holding, std::int64_t bytes) {
  live_[static_cast<std::size_t>(holding)] += bytes;
  total_ += bytes;
  if (total_ > highest_total_) {
    highest_total_ = total_;
    highest_ = live_;
  }
}

void MemoryMeter::give(Holding holding, std::int64_t bytes) {
  live_[static_cast<std::size_t>(holding)] -= bytes;
  total_ -= bytes;
}

Held MemoryMeter::end_phase() {
  const Held height = highest_;
  highest_ = live_;
  highest_total_ = total_;
  return height;
}

namespace {

// The caching allocator hands out multiples of this.
constexpr std::int64_t allocation_unit = 512;

std::int64_t rounded(std::int64_t bytes) { return (bytes + allocation_unit - 1) / allocation_unit * allocation_unit; }

}  // namespace

Storage::Storage(MemoryMeter& meter, Holding holding, std::int64_t bytes)
    : meter_(meter), holding_(holding), bytes_(rounded(bytes)) {
  meter_.take(holding_, bytes_);
}
Storage::~Storage() { meter_.give(holding_, bytes_); }

std::int64_t reduction_scratch(std::int64_t elements) {
  constexpr std::int64_t most = std::int64_t{33} << 20;
  return std::min(8 * elements, most);
}

EagerTape::EagerTape(MemoryMeter& meter, TapeTypes types, bool gradients_stay, bool recording)
    : meter_(meter), types_(types), gradients_stay_(gradients_stay), recording_(recording) {}

Bytes EagerTape::take(std::int64_t bytes, Holding holding) const {
  return std::make_shared<Storage>(meter_, holding, bytes);
}

Tensor EagerTape::make(std::int64_t elements, int width, Holding holding) const {
  return {take(elements * width, holding), elements, width, std::nullopt};
}

Tensor EagerTape::record(Tensor output, std::vector<const Tensor*> inputs, std::vector<Bytes> saved, bool trains,
                         Backward backward) {
  const bool flows = std::ranges::any_of(inputs, [](const Tensor* input) { return input->maker.has_value(); });
  if (!recording_ || (!flows && !trains)) return output;
  Node node{{}, std::move(saved), std::move(backward)};
  for (const Tensor* input : inputs) node.inputs.push_back(input->maker);
  output.maker = NodeId{nodes_.size()};
  nodes_.push_back(std::move(node));
  return output;
}

Tensor EagerTape::leaf(Tensor tensor) {
  leaf_ = NodeId{nodes_.size()};
  nodes_.push_back({});
  tensor.maker = leaf_;
  return tensor;
}

Bytes EagerTape::backward(const Tensor& output, Bytes gradient) {
  if (!output.maker) return {};
  nodes_[static_cast<std::size_t>(*output.maker)].gradient = std::move(gradient);
  Bytes reached;
  while (!nodes_.empty()) {
    const std::size_t position = nodes_.size() - 1;
    Node node = std::move(nodes_.back());
    if (leaf_ && static_cast<std::size_t>(*leaf_) == position) reached = std::move(node.gradient);
    if (node.gradient && node.backward) {
      std::vector<Bytes> of_inputs(node.inputs.size());
      node.backward(std::move(node.gradient), node.saved, of_inputs);
      node.saved.clear();
      for (std::size_t i = 0; i < of_inputs.size(); ++i) {
        if (!of_inputs[i] || !node.inputs[i]) continue;
        // A second gradient is added to the first in place.
        Bytes& sum = nodes_[static_cast<std::size_t>(*node.inputs[i])].gradient;
        if (!sum) sum = std::move(of_inputs[i]);
      }
    }
    nodes_.pop_back();
  }
  return reached;
}

void EagerTape::arrive(Parameter& parameter, Bytes gradient) const {
  if (parameter.uses > 1 && !parameter.waiting) {
    parameter.waiting = std::move(gradient);
    return;
  }
  if (parameter.waiting && types_.autocast()) {
    gradient = std::move(parameter.waiting);  // added in place
  } else if (parameter.waiting) {
    // A product's gradient is a transposed view, to which nothing is added in place.
    Bytes both = take(parameter.elements * types_.weight, Holding::gradients);
    parameter.waiting.reset();
    gradient = std::move(both);
  }
  if (gradients_stay_) parameter.gradient = std::move(gradient);
}

Tensor EagerTape::cast(const Tensor& input, int width) {
  const std::int64_t elements = input.elements;
  const int from = input.width;
  return record(make(elements, width), {&input}, {}, false,
                [this, elements, from](Bytes gradient, std::vector<Bytes>&, std::vector<Bytes>& of_inputs) {
                  of_inputs[0] = take(elements * from);
                  gradient.reset();
                });
}

Tensor EagerTape::add(const Tensor& a, const Tensor& b) {
  const int width = std::max(a.width, b.width);
  const std::int64_t elements = a.elements;
  return record(make(elements, width), {&a, &b}, {}, false,
                [this, elements, width, narrow_a = a.width, narrow_b = b.width](Bytes gradient, std::vector<Bytes>&,
                                                                                std::vector<Bytes>& of_inputs) {
                  of_inputs[0] = narrow_a == width ? gradient : take(elements * narrow_a);
                  of_inputs[1] = narrow_b == width ? gradient : take(elements * narrow_b);
                });
}

Tensor EagerTape::multiply(const Tensor& a, const Tensor& b) {
  const int width = std::max(a.width, b.width);
  const std::int64_t elements = a.elements;
  return record(make(elements, width), {&a, &b}, {a.data, b.data}, false,
                [this, elements, width](Bytes gradient, std::vector<Bytes>& saved, std::vector<Bytes>& of_inputs) {
                  of_inputs[0] = take(elements * width);
                  of_inputs[1] = take(elements * width);
                  gradient.reset();
                  saved.clear();
                });
}

Tensor EagerTape::copy_of(Parameter& weight) {
  if (weight.copy) return *weight.copy;
  Tensor copy = make(weight.elements, types_.compute);
  copy =
      record(copy, {}, {}, weight.trained, [this, &weight](Bytes gradient, std::vector<Bytes>&, std::vector<Bytes>&) {
        Bytes wide = take(weight.elements * types_.weight, Holding::gradients);
        gradient.reset();
        arrive(weight, std::move(wide));
      });
  weight.copy = copy;
  return copy;
}

Bytes EagerTape::unpack(const Parameter& weight) const {
  return weight.packed ? take(weight.elements * types_.compute) : Bytes();
}

Tensor EagerTape::linear(const Tensor& input, Parameter& weight, std::int64_t in, std::int64_t out, bool bias,
                         Holding output) {
  const Bytes unpacked = unpack(weight);
  const std::int64_t rows = input.elements / in;
  const int width = types_.compute;
  const Tensor used = types_.autocast() ? copy_of(weight) : Tensor{};
  const Tensor narrow = input.width == width ? input : cast(input, width);
  std::vector<Bytes> saved;
  if (weight.trained) saved.push_back(narrow.data);
  if (narrow.maker && used.data) saved.push_back(used.data);
  const bool flows = narrow.maker.has_value();
  return record(make(rows * out, width, output), {&narrow, &used}, std::move(saved), weight.trained,
                [this, &weight, rows, in, width, elements = in * out, bias, flows, out](
                    Bytes gradient, std::vector<Bytes>& kept, std::vector<Bytes>& of_inputs) {
                  const Bytes again = unpack(weight);
                  Bytes of_weight;
                  if (weight.trained) of_weight = take(elements * width, Holding::gradients);
                  if (flows) of_inputs[0] = take(rows * in * width);
                  if (bias) static_cast<void>(take(reduction_scratch(rows * out)));
                  gradient.reset();
                  kept.clear();
                  if (!weight.trained) return;
                  if (types_.autocast())
                    of_inputs[1] = std::move(of_weight);
                  else
                    arrive(weight, std::move(of_weight));
                });
}

Tensor EagerTape::embedding(std::int64_t tokens, std::int64_t width, Parameter& weight) {
  return record(make(tokens * width, types_.weight), {}, {}, weight.trained,
                [this, &weight](Bytes gradient, std::vector<Bytes>&, std::vector<Bytes>&) {
                  Bytes of_weight = take(weight.elements * types_.weight, Holding::gradients);
                  gradient.reset();
                  arrive(weight, std::move(of_weight));
                });
}

Tensor EagerTape::dropout(const Tensor& input, double probability) {
  if (probability == 0 || !recording_) return input;
  Bytes mask = take(input.elements);
  const std::int64_t bytes = input.elements * input.width;
  return record(make(input.elements, input.width), {&input}, {std::move(mask)}, false,
                [this, bytes](Bytes gradient, std::vector<Bytes>& saved, std::vector<Bytes>& of_inputs) {
                  of_inputs[0] = take(bytes);
                  gradient.reset();
                  saved.clear();
                });
}

Tensor EagerTape::cross_entropy(const Tensor& logits) {
  constexpr int wide = 4;
  const std::int64_t bytes = logits.elements * wide;
  const int width = logits.width;
  Bytes raised;
  if (width != wide) raised = take(bytes, Holding::logits);
  Bytes log_softmax = take(bytes, Holding::logits);
  raised.reset();
  return record(make(1, wide), {&logits}, {std::move(log_softmax)}, false,
                [this, bytes, width, elements = logits.elements](Bytes, std::vector<Bytes>& saved,
                                                                 std::vector<Bytes>& of_inputs) {
                  Bytes of_log_softmax = take(bytes, Holding::logits);
                  Bytes of_logits = take(bytes, Holding::logits);
                  of_log_softmax.reset();
                  saved.clear();
                  if (width != wide) {
                    of_inputs[0] = take(elements * width, Holding::logits);
                    of_logits.reset();
                  } else {
                    of_inputs[0] = std::move(of_logits);
                  }
                });
}

}  // namespace muster::plan
