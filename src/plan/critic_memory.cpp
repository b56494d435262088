#include "plan/critic_memory.hpp"

#include <algorithm>
#include <array>

namespace muster::plan {
namespace {

constexpr std::array states{Component::weights,   Component::quantization, Component::buffers, Component::master,
                            Component::gradients, Component::optimizer,    Component::buckets};
constexpr std::array of_a_pass{Component::activations, Component::logits, Component::gathered, Component::workspace,
                               Component::slack};

std::int64_t pass_bytes(const DeviceMemory& memory) {
  std::int64_t bytes = 0;
  for (const Component component : of_a_pass) bytes += memory[component];
  return bytes;
}

}  // namespace

Workload workload_of_critic(const Workload& workload) {
  Workload critic = workload;
  // Beside adapters, weights are held in the type that is computed in; what is trained as a whole has wide masters.
  if (critic.adapters) {
    critic.mixed_precision = critic.weights != WeightType::float32;
    critic.weights = WeightType::float32;
  }
  critic.adapters.reset();
  critic.packed.reset();
  critic.reference = critic.weighed = false;
  critic.reward_model = 0;
  return critic;
}

DeviceMemory with_critic(DeviceMemory memory, const DeviceMemory& critic, const MemoryConstants& constants) {
  for (const Component state : states) memory[Component::critic] += critic[state];
  if (pass_bytes(critic) > pass_bytes(memory)) {
    for (const Component component : of_a_pass) memory[component] = critic[component];
    memory.moment = critic.moment;
  }
  // The group of all ranks is there once.
  memory[Component::nccl] += std::max<std::int64_t>(critic[Component::nccl] - constants.nccl_communicator, 0);
  memory.host += critic.host;
  return memory;
}

}  // namespace muster::plan
