#include "host/device_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/count_of.hpp"
#include "host/described_gpus.hpp"

namespace muster::host {
namespace {

constexpr gpu::ComputeCapability first_with_bfloat16{8, 0};

// Which GPUs, according to the request; without one, all that are free. Of more than are needed the emptiest, and
// among equals the best connected.
gpu::SelectionRequest selection_of(const spec::DistributedSpec& asked) {
  gpu::SelectionRequest request;
  request.least_loaded = true;
  request.ids = gpu::gpu_names(asked.gpu_ids);
  if (!request.ids.empty()) return request;
  if (is_one_process(asked)) {
    request.count = 1;
  } else if (asked.num_gpus) {
    request.count = static_cast<int>(*asked.num_gpus);
  } else if (asked.ranks) {
    request.count = static_cast<int>(*asked.ranks);
    request.up_to = true;
  }
  return request;
}

ChosenDevices on_the_cpu(const spec::DistributedSpec& asked) {
  ChosenDevices chosen;  // one rank
  chosen.ranks = static_cast<int>(asked.ranks.value_or(1));
  return chosen;
}

ChosenDevices on_gpus(const HostView& view, const std::vector<gpu::VisibleIndex>& picked) {
  ChosenDevices chosen;
  chosen.gpus = picked;
  chosen.ranks = static_cast<int>(picked.size());
  chosen.visible = view.visible.size();
  // A GPU that does not report this is assumed to be a current one; the worker refuses a type that its device lacks.
  chosen.has_bfloat16 = std::ranges::all_of(picked, [&](gpu::VisibleIndex index) {
    const gpu::GpuFacts& facts = view.gpu_of(view.visible[static_cast<std::size_t>(number(index))]).facts;
    return facts.compute_capability.value_or(first_with_bfloat16) >= first_with_bfloat16;
  });
  return chosen;
}

}  // namespace

Result<ChosenDevices> choose_devices(Host& host, const spec::DistributedSpec& asked, std::optional<std::int64_t> work,
                                     Purpose purpose) {
  if (asked.device == spec::Device::cpu) return on_the_cpu(asked);
  auto view = host.look(gpu::Detail::everything);
  if (!view) return view.error();
  const bool nothing_asked = asked.gpu_ids.empty() && !asked.num_gpus.has_value();
  const bool any_device = nothing_asked && asked.device == spec::Device::automatic;
  if (view->visible.empty() && any_device) return on_the_cpu(asked);
  const auto described = file_of_described_gpus(host.sources(), *view);
  if (described && any_device && purpose == Purpose::compute) {
    ChosenDevices chosen = on_the_cpu(asked);
    chosen.notes.push_back(described_gpus_words(*described) + ": the CPU computes");
    return chosen;
  }
  if (view->visible.empty())
    return Error{Error::Kind::refused, "a GPU is asked for, and none is visible", "--device cpu, or muster doctor"};
  const auto picked = pick(*view, selection_of(asked));
  if (!picked) return picked.error();
  ChosenDevices chosen = on_gpus(*view, *picked);
  if (asked.ranks && *asked.ranks < chosen.ranks)
    return Error{
        Error::Kind::bad_input,
        fmt::format("{} and {} are asked for: some GPUs would have nothing to do", count_of(*asked.ranks, "rank"),
                    count_of(chosen.ranks, "GPU")),
        fmt::format("--num-gpus {}, or no --ranks: each GPU gets one", *asked.ranks)};
  if (described && purpose == Purpose::compute) return refuse_described_gpus(*described);
  if (described) chosen.notes.push_back(described_gpus_words(*described) + ": only a dry run uses them");
  if (asked.ranks) chosen.ranks = static_cast<int>(*asked.ranks);
  // A file has work for all of them, as long as there is a prompt for each; a pipe usually only for one.
  if (nothing_asked && !asked.ranks) chosen.most_replicas = static_cast<std::size_t>(work.value_or(1));
  chosen.view = std::move(*view);
  return chosen;
}

spec::DataType type_to_hold(spec::DataType asked, const ChosenDevices& devices) {
  if (asked != spec::DataType::automatic) return asked;
  return devices.has_bfloat16 ? spec::DataType::bfloat16 : spec::DataType::float32;
}

spec::ElementType element_type(spec::DataType type) {
  if (type == spec::DataType::bfloat16) return spec::ElementType::bfloat16;
  return type == spec::DataType::float16 ? spec::ElementType::float16 : spec::ElementType::float32;
}

}  // namespace muster::host
