// How high the bytes of one step of training or inference rise above the states, moment by moment, on one device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/adapters.hpp"
#include "plan/eager_tape.hpp"
#include "spec/model/model_config.hpp"
#include "spec/values.hpp"

namespace muster::plan {

// What the units have that a sharded model is gathered and reduced by: parameters, or bytes.
struct UnitSizes {
  std::int64_t embedding = 0;
  std::int64_t block = 0;
  std::int64_t last = 0;  // the final norm, and a head that is not tied
  std::int64_t largest() const { return std::max({embedding, block, last}); }
  bool operator==(const UnitSizes&) const = default;
};

// What a rank of muster's engine adds to the units that are whole for a moment.
struct Gathering {
  UnitSizes units;            // parameters that are trained
  bool keeps = false;         // a unit stays until its last visit of a pass (shard_grad_op)
  std::int64_t gradient = 4;  // bytes of a sum of gradients
  std::int64_t shards = 1;    // parts of each unit
  bool from_host = false;     // parts are fetched from the host's memory and written back there
  UnitSizes frozen = {};      // bytes of what is not trained
  bool operator==(const Gathering&) const = default;
};

// One device's share of one step.
struct StepRequest {
  spec::PositionKind position_kind = spec::PositionKind::rotary;
  spec::NormKind norm = spec::NormKind::rms;
  bool query_key_norm = false;
  bool gated = true;
  bool softmax_in_float32 = true;  // of transformers' eager attention
  std::int64_t hidden = 0;
  std::int64_t query = 0;         // heads × head size, of this device
  std::int64_t kv = 0;            // likewise
  std::int64_t heads = 0;         // of this device
  bool grouped = false;           // fewer key and value heads than query heads
  std::int64_t intermediate = 0;  // of this device
  std::int64_t vocabulary = 0;    // of this device
  std::int64_t head_outputs = 0;  // of this device: tokens that are predicted, and scores
  std::int64_t layers = 0;        // of this device
  bool has_embedding = true;
  bool has_head = true;
  bool tied = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  spec::Dropout dropout;
  TapeTypes types;
  std::int64_t batch = 1;
  std::int64_t sequence = 0;
  spec::Attention attention = spec::Attention::sdpa;
  spec::Recomputation recomputation = spec::Recomputation::none;
  bool gradients_stay = true;
  std::int64_t unpacked = 0;  // bytes of the largest packed weight where it is unpacked for a product; 0: none is
  std::optional<AdaptedBlock> adapters;  // beside each block; nothing else is trained then
  // For muster's engine:
  bool exact = false;
  bool on_cpu = false;
  bool weighed = false;                // weights of rows follow from their probabilities: the head runs twice
  std::optional<Gathering> gathering;  // absent: all parameters are always present
  bool operator==(const StepRequest&) const = default;
};

struct Moment {
  std::string_view name;  // "loss, backward"
  Held held{};
};

// Which engine computes: what is kept for the backward pass, and what is needed for a moment, differs.
enum class Implementation { transformers, muster };

// The high moments of a forward and backward pass, not counting states.
std::vector<Moment> training_moments(Implementation implementation, const StepRequest& request);

// The high moments of reading a prompt of request.sequence tokens and writing new_tokens more; with 0 new tokens the
// logits of all positions are computed and nothing is cached.
std::vector<Moment> inference_moments(Implementation implementation, const StepRequest& request,
                                      std::int64_t new_tokens);

// Each implementation's own.
std::vector<Moment> transformers_training(const StepRequest& request);
std::vector<Moment> transformers_inference(const StepRequest& request, std::int64_t new_tokens);
std::vector<Moment> muster_training(const StepRequest& request);
std::vector<Moment> muster_inference(const StepRequest& request, std::int64_t new_tokens);
// Tokens that a sequence of this length takes in muster's cache.
std::int64_t muster_cached_tokens(std::int64_t sequence);

}  // namespace muster::plan
