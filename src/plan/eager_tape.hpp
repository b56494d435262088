// What eager PyTorch holds while it computes: a record of operations whose tensors are byte counts. Running a model's
// operations forward and backward on it gives the bytes that are alive at every moment; no number is computed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace muster::plan {

// What bytes are used for.
enum class Holding { activations, logits, gradients, kv_cache, gathered };
using Held = std::array<std::int64_t, 5>;
std::int64_t sum(const Held& held);

// Counts bytes that are alive, and remembers the peak of each phase.
class MemoryMeter {
 public:
  void take(Holding holding, std::int64_t bytes);
  void give(Holding holding, std::int64_t bytes);
  const Held& live() const { return live_; }
  // The highest moment since the last call; the next phase begins with what is alive now.
  Held end_phase();

 private:
  Held live_{};
  Held highest_{};
  std::int64_t total_ = 0;
  std::int64_t highest_total_ = 0;
};

// Bytes that are alive as long as something refers to them, like a tensor's storage.
class Storage {
 public:
  Storage(MemoryMeter& meter, Holding holding, std::int64_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

 private:
  MemoryMeter& meter_;
  Holding holding_;
  std::int64_t bytes_;
};
using Bytes = std::shared_ptr<Storage>;

enum class NodeId : std::size_t {};

struct Tensor {
  Bytes data;
  std::int64_t elements = 0;
  int width = 0;                // bytes per element
  std::optional<NodeId> maker;  // absent: no gradient flows through it
};

// A weight. Its own bytes are counted elsewhere; this holds its gradient and its copy in the type that is computed in.
struct Parameter {
  std::int64_t elements = 0;
  bool trained = true;
  int uses = 1;         // how many gradients arrive in one backward pass: 2 for a tied one
  Bytes gradient = {};  // stays until the optimizer's step
  Bytes waiting = {};   // the first of two gradients
  std::optional<Tensor> copy = {};
  bool packed = false;  // unpacked for each product, in the forward and in the backward pass
};

struct TapeTypes {
  int weight = 2;   // bytes per element of weights, gradients and the residual stream
  int compute = 2;  // of matrix products; less than weight: autocast
  bool autocast() const { return compute < weight; }
  bool operator==(const TapeTypes&) const = default;
};

class EagerTape {
 public:
  // gradients_stay: gradients of weights stay alive after the backward pass. Otherwise they are added to what is there
  // (accumulation), or sent away (sharding), at once. Without recording nothing is saved for a backward pass.
  EagerTape(MemoryMeter& meter, TapeTypes types, bool gradients_stay, bool recording);

  const TapeTypes& types() const { return types_; }
  MemoryMeter& meter() const { return meter_; }
  bool recording() const { return recording_; }
  bool gradients_stay() const { return gradients_stay_; }
  // A tape on the same meter, for a part that is computed without being recorded, or again.
  EagerTape beside(bool recording) const { return {meter_, types_, gradients_stay_, recording}; }

  Bytes take(std::int64_t bytes, Holding holding = Holding::activations) const;
  // A packed weight in the type that is computed in; nothing for another.
  Bytes unpack(const Parameter& weight) const;
  Tensor make(std::int64_t elements, int width, Holding holding = Holding::activations) const;

  // Gets the gradient of the output, what was saved and a place per input for that input's gradient.
  using Backward = std::function<void(Bytes gradient, std::vector<Bytes>& saved, std::vector<Bytes>& of_inputs)>;
  // The output of an operation. Recorded when a gradient flows through an input or trains says that it trains a weight.
  Tensor record(Tensor output, std::vector<const Tensor*> inputs, std::vector<Bytes> saved, bool trains,
                Backward backward);
  // A leaf whose gradient is wanted: the input of a part that is computed again.
  Tensor leaf(Tensor tensor);

  // Runs everything recorded, latest first. Returns the gradient that reached the leaf, if any.
  Bytes backward(const Tensor& output, Bytes gradient);

  // A gradient of a weight is ready.
  void arrive(Parameter& parameter, Bytes gradient) const;

  // Operations that every model uses.
  Tensor cast(const Tensor& input, int width);
  Tensor add(const Tensor& a, const Tensor& b);
  Tensor multiply(const Tensor& a, const Tensor& b);
  // weight: in × out elements. A bias adds its reduction in the backward pass.
  Tensor linear(const Tensor& input, Parameter& weight, std::int64_t in, std::int64_t out, bool bias,
                Holding output = Holding::activations);
  Tensor embedding(std::int64_t tokens, std::int64_t width, Parameter& weight);
  Tensor dropout(const Tensor& input, double probability);
  // Cross entropy over all tokens as transformers computes it: in 4-byte numbers, log-softmax saved.
  Tensor cross_entropy(const Tensor& logits);

 private:
  struct Node {
    std::vector<std::optional<NodeId>> inputs;
    std::vector<Bytes> saved;
    Backward backward;
    Bytes gradient = {};
  };

  Tensor copy_of(Parameter& weight);

  MemoryMeter& meter_;
  TapeTypes types_;
  bool gradients_stay_;
  bool recording_;
  std::vector<Node> nodes_;
  std::optional<NodeId> leaf_;
};

// What a sum over all rows needs for a moment: partial sums of the thread blocks, up to what the GPU runs at once.
std::int64_t reduction_scratch(std::int64_t elements);

}  // namespace muster::plan
