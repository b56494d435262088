#include "plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_count.hpp"
#include "plan/plan_parts.hpp"

namespace muster::plan {

namespace {

// What one host's ranks offload must fit its memory.
std::optional<Refusal> host_refusal(const Plan& plan, std::optional<std::int64_t> host_memory) {
  std::int64_t needed = 0;
  for (const RankPlan& rank : plan.ranks)
    if (rank.host == 0) needed += rank.memory.host;
  if (!host_memory || needed <= *host_memory) return std::nullopt;
  return Refusal{fmt::format("what is offloaded needs {} of host memory, and {} are free", to_string(ByteCount{needed}),
                             to_string(ByteCount{*host_memory})),
                 needed - *host_memory,
                 {}};
}

}  // namespace

std::optional<Refusal> refusal_of(const Plan& plan, std::optional<std::int64_t> host_memory) {
  const RankPlan* worst = nullptr;
  for (const RankPlan& rank : plan.ranks)
    if (!rank.fits() && (worst == nullptr || rank.memory.total() - rank.limit > worst->memory.total() - worst->limit))
      worst = &rank;
  if (worst == nullptr) return host_refusal(plan, host_memory);
  const std::int64_t shortfall = worst->memory.total() - worst->limit;
  const std::string where =
      worst->gpu ? fmt::format("GPU {}", worst->gpu->number) : fmt::format("rank {}", worst->rank);
  return Refusal{fmt::format("{} needs {} and may use {}: {} short", where, to_string(ByteCount{worst->memory.total()}),
                             to_string(ByteCount{worst->limit}), to_string(ByteCount{shortfall})),
                 shortfall,
                 {}};
}

std::string dividing_gpus(const spec::ModelConfig& config, std::int64_t gpus) {
  for (std::int64_t fewer = gpus - 1; fewer > 1; --fewer)
    if (config.kv_heads % fewer == 0 && config.intermediate % fewer == 0) return fmt::format("--num-gpus {}", fewer);
  return "--strategy auto";
}

RankPlan cpu_rank(const Question& question, DeviceMemory memory) {
  for (const Component component : {Component::slack, Component::nccl, Component::context}) memory[component] = 0;
  return {0, 0, std::nullopt, memory, question.cpu_limit.value_or(question.host_memory.value_or(unknown_limit)), {}};
}

std::vector<RankPlan> equal_ranks(const Question& question, const DeviceMemory& memory) {
  std::vector<RankPlan> ranks;
  for (std::int64_t host = 0; host < question.hosts; ++host)
    for (const PlanDevice& device : question.devices)
      ranks.push_back({static_cast<int>(ranks.size()), static_cast<int>(host), device, memory, device.limit, {}});
  return ranks;
}

Result<Plan> make_plan(const Question& question) {
  auto plan = question.workload.work == Work::training ? plan_training(question) : plan_inference(question);
  const std::int64_t positions = question.model->config.positions;
  if (plan && question.workload.sequence > positions)
    plan->reasons.push_back(fmt::format("sequences of {} tokens are longer than the {} that this model was made for",
                                        question.workload.sequence, positions));
  if (plan && plan->refusal) plan->refusal->remedies = find_remedies(question);
  return plan;
}

std::vector<PlanDevice> smallest_set(const Question& question) {
  Question smaller = question;
  smaller.detail = Detail::verdict;
  std::ranges::stable_sort(smaller.devices, std::ranges::greater{}, &PlanDevice::limit);
  const std::vector<PlanDevice> roomiest = smaller.devices;
  for (std::size_t count = 1; count <= roomiest.size(); ++count) {
    smaller.devices.assign(roomiest.begin(), roomiest.begin() + static_cast<std::ptrdiff_t>(count));
    std::ranges::sort(smaller.devices, {}, &PlanDevice::number);
    const auto plan = plan_inference(smaller);
    if (plan && plan->fits()) return smaller.devices;
  }
  return {};
}

}  // namespace muster::plan
