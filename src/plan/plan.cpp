#include "plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_count.hpp"
#include "base/text.hpp"
#include "plan/plan_parts.hpp"

namespace muster::plan {

std::int64_t host_bytes(const Plan& plan) {
  std::int64_t offloaded = 0, modules = 0;
  for (const RankPlan& rank : plan.ranks)
    if (rank.host == 0) offloaded += rank.memory.host;
  // Ranks that fetch modules from there count them already.
  if (std::ranges::any_of(plan.ranks, [](const RankPlan& rank) { return rank.gpu.has_value(); }))
    for (const auto& [place, bytes] : plan.off_gpu)
      if (place == on_cpu()) modules += bytes;
  return std::max(offloaded, modules);
}

namespace {

std::optional<Refusal> host_refusal(const Plan& plan, std::optional<std::int64_t> host_memory) {
  const std::int64_t needed = host_bytes(plan);
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
  std::int64_t limit = question.cpu_limit.value_or(question.host_memory.value_or(unknown_limit));
  if (limit != unknown_limit) limit /= question.ranks.value_or(1);
  return {0, 0, std::nullopt, memory, limit, {}};
}

std::vector<RankPlan> equal_ranks(const Question& question, const DeviceMemory& memory, std::int64_t hosts) {
  std::vector<RankPlan> ranks;
  const std::int64_t here = ranks_of_host(question), devices = std::ssize(question.devices);
  for (std::int64_t host = 0; host < hosts; ++host)
    for (std::int64_t rank = 0; rank < here; ++rank) {
      const auto at = static_cast<std::size_t>(rank % devices);
      ranks.push_back({static_cast<int>(ranks.size()),
                       static_cast<int>(host),
                       question.devices[at],
                       memory,
                       rank_limit(question, at),
                       {}});
    }
  return ranks;
}

std::int64_t rank_limit(const Question& question, std::size_t device) {
  const std::int64_t devices = std::ssize(question.devices);
  const std::int64_t sharing = (ranks_of_host(question) - static_cast<std::int64_t>(device) + devices - 1) / devices;
  return question.devices[device].limit / std::max<std::int64_t>(sharing, 1);
}

namespace {

// Sizes whose bytes do not fit 63 bits are not real work: refused before anything is multiplied.
std::optional<Error> uncountable(const Question& question) {
  const spec::ModelConfig& config = question.model->config;
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double sequence = real(question.workload.sequence);
  const double per_token = 16 * real(config.vocabulary) +
                           real(config.layers) * (32 * (real(config.hidden) + real(config.query_width())) +
                                                  32 * real(config.intermediate) + 16 * sequence * real(config.heads));
  // A search for the largest batch goes up to this many sequences.
  const double sequences = real(std::max<std::int64_t>(question.micro_batch.value_or(1), 4096)) *
                           real(std::max<std::int64_t>(std::ssize(question.devices), 1));
  const auto refuse = [](std::string what, std::string remedy) {
    return Error{Error::Kind::bad_input, std::move(what), std::move(remedy)};
  };
  if (per_token * sequence * sequences >= 9e18)
    return refuse(fmt::format("{} sequences of {} tokens are more than can be counted",
                              question.micro_batch.value_or(1), question.workload.sequence),
                  fmt::format("sequences of at most {} tokens, for which the model was made", config.positions));
  constexpr std::int64_t most_hosts = 65536, most_passes = 1 << 30;
  if (question.hosts > most_hosts)
    return refuse(fmt::format("{} hosts are asked for", question.hosts), fmt::format("at most {}", most_hosts));
  if (question.accumulation.value_or(1) > most_passes)
    return refuse(fmt::format("{} passes per optimizer step are asked for", *question.accumulation),
                  fmt::format("at most {}", most_passes));
  const std::int64_t rank = question.workload.adapters ? question.workload.adapters->block.ranks.largest() : 0;
  if (rank > config.hidden)
    return refuse(fmt::format("adapters of rank {} are larger than the layers they adapt, of {} columns", rank,
                              config.hidden),
                  "a rank such as 8 or 64");
  return std::nullopt;
}

// A split over more GPUs than necessary leaves room for larger batches, and nothing else.
std::optional<std::string> fewer_devices(const Question& question) {
  const std::vector<PlanDevice> enough = smallest_set(question);
  if (enough.empty() || enough.size() == question.devices.size()) return std::nullopt;
  std::vector<std::string> numbers;
  for (const PlanDevice& device : enough) numbers.push_back(std::to_string(device.number));
  return fmt::format("{} GPU{} would hold it: --gpu-ids {}", enough.size(), enough.size() == 1 ? "" : "s",
                     join(numbers, " "));
}

}  // namespace

Result<Plan> make_plan(const Question& question) {
  if (auto error = uncountable(question)) return *error;
  auto plan = question.workload.work == Work::training ? plan_training(question) : plan_inference(question);
  const std::int64_t positions = question.model->config.positions;
  if (plan && question.workload.sequence > positions)
    plan->reasons.push_back(fmt::format("sequences of {} tokens are longer than the {} that this model was made for",
                                        question.workload.sequence, positions));
  if (plan && plan->refusal) plan->refusal->remedies = find_remedies(question);
  if (plan && plan->fits() && plan->layout.scheme == Scheme::layer_split && !question.map && !question.as_stages)
    if (auto reason = fewer_devices(question)) plan->reasons.push_back(std::move(*reason));
  return plan;
}

std::vector<PlanDevice> smallest_set(const Question& question) {
  Question smaller = question;
  smaller.detail = Detail::verdict;
  std::ranges::stable_sort(smaller.devices, std::ranges::greater{}, &PlanDevice::limit);
  const std::vector<PlanDevice> roomiest = smaller.devices;
  const bool all_on_gpus = !question.cpu_limit && !question.disk_limit;
  const std::int64_t weights = weigh(question.model->shape, question.workload).parameter_bytes;
  std::int64_t room = 0;
  for (std::size_t count = 1; count <= roomiest.size(); ++count) {
    room += roomiest[count - 1].limit;
    if (all_on_gpus && room < weights) continue;  // not even the weights fit
    smaller.devices.assign(roomiest.begin(), roomiest.begin() + static_cast<std::ptrdiff_t>(count));
    std::ranges::sort(smaller.devices, {}, &PlanDevice::number);
    const auto plan = plan_inference(smaller);
    if (plan && plan->fits()) return smaller.devices;
  }
  return {};
}

}  // namespace muster::plan
