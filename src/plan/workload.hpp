// What will be computed, and how it is laid over devices: the planner's question in plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_count.hpp"
#include "plan/adapters.hpp"
#include "plan/step_moments.hpp"
#include "spec/model/model_shape.hpp"
#include "spec/values.hpp"
#include "spec/weight_packing.hpp"

namespace muster::plan {

enum class Work { inference, training };

// The type weights are held in, as far as they are not packed.
enum class WeightType { float32, bfloat16, float16 };
std::string_view name(WeightType type);

// Weights that are held in codes of 8 or 4 bits, with scales.
struct PackedWeights {
  spec::WeightPacking packing;
  std::vector<spec::TensorId> tensors;  // of the model, ascending
};

struct Workload {
  Work work = Work::inference;
  Implementation implementation = Implementation::transformers;
  WeightType weights = WeightType::bfloat16;
  std::optional<PackedWeights> packed;
  // Training: products are computed in this many bytes while weights, gradients and optimizer are held in 4.
  bool mixed_precision = false;
  spec::OptimizerKind optimizer = spec::OptimizerKind::adamw;
  spec::Attention attention = spec::Attention::sdpa;
  spec::Recomputation recomputation = spec::Recomputation::none;  // selective: only with muster
  bool exact = false;                                             // muster: sums of gradients are exact
  std::optional<Adapters> adapters;                               // training: what is trained instead of the weights
  std::int64_t sequence = 1024;      // tokens per sequence; for inference: prompt and answer together
  std::int64_t new_tokens = 256;     // for inference: the answer's share of them; 0: scoring, logits of all positions
  bool expandable_segments = false;  // PyTorch's allocator may grow its segments
  std::int64_t micro_batch = 1;      // units per device and pass: sequences, or what so many of them make together
  std::int64_t together = 1;         // 2: pairs of answers
  bool weighed = false;              // training: weights of tokens follow from the probabilities of answers
  bool reference = false;            // training: another copy of the weights, whole on every device
  std::int64_t reward_model = 0;     // training: bytes of one that judges answers, whole on every device
  std::int64_t accumulation = 1;     // passes per optimizer step
};

// What a batch counts: "sequence", "pair".
std::string_view unit_word(const Workload& workload);
// Bits of a weight that is packed, or of any where none are; scales not counted.
int weight_bits(const Workload& workload);
// "bfloat16", "int8", "int4"
std::string_view weight_name(const Workload& workload);

// How one model is laid over the ranks that share it.
enum class Scheme {
  single,       // one device
  replicas,     // inference: a whole model on each device
  ddp,          // training: a whole model on each device, gradients averaged
  fsdp,         // states sharded
  tensor,       // matrices sharded
  pipeline,     // layers divided, micro-batches in flight
  layer_split,  // inference: layers divided among the devices (a device map)
};
std::string_view name(Scheme scheme);

struct Layout {
  Scheme scheme = Scheme::single;
  spec::ShardingStrategy sharding = spec::ShardingStrategy::full_shard;
  bool offload = false;          // FSDP: shards in host memory
  std::int64_t world = 1;        // ranks
  std::int64_t shard_group = 1;  // hybrid_shard: ranks that share one copy
  bool on_cpu = false;           // CPU ranks: their memory is the host's already
};

// "ddp", "fsdp full_shard", "fsdp hybrid_shard in groups of 4, with offload"
std::string strategy_words(const Layout& layout);

}  // namespace muster::plan
