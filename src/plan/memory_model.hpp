// Every byte on every device, component by component. Pure; each formula is in docs/memory-model.md.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/memory_constants.hpp"
#include "plan/step_memo.hpp"
#include "plan/workload.hpp"
#include "spec/model/model_source.hpp"

namespace muster::plan {

enum class Component {
  weights,       // parameters × bits / 8
  quantization,  // what scales and tensors that stay in 16 bits add to quantised weights
  buffers,       // tensors that are computed, not trained: rotary frequencies
  master,        // a wide copy of narrow weights
  gradients,
  optimizer,
  adapters,  // their weights, gradients and optimizer
  reference,  // weights of what a policy is held to
  reward_model,  // weights of what judges its answers
  critic,        // states of what is trained beside it
  activations,
  logits,
  kv_cache,
  gathered,   // FSDP units that are whole for a moment, and their gradients
  buckets,    // DDP's gradient buckets
  workspace,  // matrix libraries, the optimizer's temporaries
  // Beyond the peak of allocated bytes:
  slack,  // reserved by the allocator above what is allocated
  nccl,
  context,
};
inline constexpr std::size_t component_count = 19;
std::string_view name(Component component);  // "kv_cache"
// Whether PyTorch's allocator counts it: max_memory_allocated.
constexpr bool is_allocated(Component component) { return component < Component::slack; }

struct DeviceMemory {
  std::array<std::int64_t, component_count> bytes{};
  std::string_view moment;  // when it is highest
  std::int64_t host = 0;    // bytes in host memory instead: what is offloaded

  std::int64_t& operator[](Component component) { return bytes[static_cast<std::size_t>(component)]; }
  std::int64_t operator[](Component component) const { return bytes[static_cast<std::size_t>(component)]; }
  std::int64_t peak() const;   // the most bytes that are allocated at once
  std::int64_t total() const;  // including what is beyond the peak
};

// What is summed over and over, computed once per model and type.
struct ModelWeight {
  std::int64_t parameters = 0;
  std::int64_t block = 0;     // parameters of the largest block
  std::int64_t outside = 0;   // parameters outside of blocks
  std::int64_t after = 0;     // those of them that come after the blocks: the last norm and a head that is not tied
  std::int64_t uncoded = 0;   // parameters that have no 8-bit states with any optimizer
  std::int64_t matrices = 0;  // parameters of all matrices, the embedding's included: what tensor parallelism divides
  std::int64_t adapters = 0;  // parameters of what is beside them
  UnitSizes held;             // bytes by unit, in the requested type
  std::int64_t buffer_bytes = 0;
  std::vector<std::int64_t> tensor_bytes;  // per tensor of the shape, in the requested type; 0 for a tied one
  std::int64_t parameter_bytes = 0;        // of all parameters
  std::int64_t scale_bytes = 0;            // those of them that are packed weights' scales
  std::int64_t unpacked = 0;               // elements of the largest matrix that is packed, joined as in our engine
};
// As the work holds them.
ModelWeight weigh(const spec::ModelShape& shape, const Workload& workload);
// Neither packed nor with adapters.
ModelWeight weigh(const spec::ModelShape& shape, WeightType type);

// The part of a model on one device of a layer split or pipeline.
struct LayerShare {
  std::int64_t layers = 0;
  bool embedding = true;
  bool head = true;
  std::int64_t parameters = 0;
  std::int64_t parameter_bytes = 0;
  std::int64_t adapters = 0;   // parameters of what is beside them
  std::int64_t in_flight = 1;  // micro-batches whose activations are held at once
  bool operator==(const LayerShare&) const = default;
};
// Bytes of a number that is computed with.
int compute_width(const Workload& workload);

LayerShare whole_model(const spec::ModelConfig& config, const ModelWeight& weight);

// The memory of one device. memo: steps that were requested before.
DeviceMemory device_memory(const spec::ModelConfig& config, const ModelWeight& weight, const Workload& workload,
                           const Layout& layout, const LayerShare& share, const MemoryConstants& constants,
                           StepMemo* memo = nullptr);

}  // namespace muster::plan
