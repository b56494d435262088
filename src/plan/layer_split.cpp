#include "plan/layer_split.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/balanced_cuts.hpp"
#include "plan/load_fraction.hpp"
#include "plan/unit_chain.hpp"

namespace muster::plan {
namespace {

bool is_gpu(const SplitDevice& device) { return device.place.kind == Place::Kind::gpu; }

void check_units(const SplitRequest& request, std::vector<Problem>& problems) {
  Wide sum = 0;
  for (const Unit& unit : request.units) {
    if (unit.bytes < 0 || unit.workspace < 0)
      problems.push_back({unit.path, fmt::format("{} bytes and {} bytes of workspace", unit.bytes, unit.workspace),
                          "both must be 0 or more"});
    sum += Wide{unit.bytes} + unit.workspace;
  }
  for (const SharedBytes& shared : request.shared) sum += shared.bytes;
  if (sum > largest_capacity) problems.push_back({"", "the units take more than 2^60 bytes", "check their sizes"});
}

void check_shared(const SplitRequest& request, std::vector<Problem>& problems) {
  std::vector<std::int64_t> left;
  for (const Unit& unit : request.units) left.push_back(unit.bytes);
  for (const SharedBytes& shared : request.shared) {
    if (shared.first >= shared.second || shared.second >= left.size() || shared.bytes < 0) {
      problems.push_back(
          {"",
           fmt::format("units {} and {} of {} share {} bytes", shared.first, shared.second, left.size(), shared.bytes),
           "name two units, the earlier one first, and 0 bytes or more"});
      return;
    }
    left[shared.first] -= shared.bytes;
    left[shared.second] += shared.bytes;
  }
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left[i] < 0)
      problems.push_back({request.units[i].path, fmt::format("shares {} bytes more than it has", -left[i]),
                          "count what it shares in the first unit's bytes, and chain units that share one tensor"});
}

void check_devices(const SplitRequest& request, std::vector<Problem>& problems) {
  if (request.devices.empty()) problems.push_back({"", "no device is given", "give at least one"});
  bool host = false;
  for (const SplitDevice& device : request.devices) {
    if (device.capacity < 0 || device.capacity > largest_capacity || device.fixed < 0 || device.fixed > largest_capacity)
      problems.push_back({to_string(device.place),
                          fmt::format("capacity {} bytes, of them {} taken", device.capacity, device.fixed),
                          "both must be 0 or more, and at most 2^60"});
    if (host && is_gpu(device))
      problems.push_back({to_string(device.place), "a GPU after cpu or disk", "list the GPUs first"});
    host = host || !is_gpu(device);
  }
}

// Stretches of the GPUs for units [0, end), which they can hold.
std::vector<std::size_t> gpu_cuts(const SplitRequest& request, const UnitChain& chain,
                                  std::span<const SplitDevice> gpus, std::size_t end) {
  if (request.goal == SplitGoal::sequential) return filled_cuts(chain, 0, end, gpus);
  if (request.goal == SplitGoal::balanced || gpus.size() < 2) return balanced_cuts(chain, request.shared, 0, end, gpus);
  const std::size_t first = latest_fit(chain, 0, end, gpus)[1];
  std::vector<std::size_t> cuts = balanced_cuts(chain, request.shared, first, end, gpus.subspan(1));
  cuts.insert(cuts.begin(), first);
  return cuts;
}

std::vector<std::size_t> devices_of(const std::vector<std::size_t>& cuts) {
  std::vector<std::size_t> device_of;
  for (std::size_t device = 0; device < cuts.size(); ++device) device_of.resize(cuts[device], device);
  return device_of;
}

Shortfall shortfall(const UnitChain& chain, std::span<const SplitDevice> devices) {
  const auto reached = filled_cuts(chain, 0, chain.size(), devices);
  const auto starts = latest_fit(chain, 0, chain.size(), devices);
  Shortfall least{.bytes = INT64_MAX};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::size_t begin = i == 0 ? 0 : reached[i - 1];
    const std::int64_t needed = devices[i].fixed + chain.cost(begin, starts[i + 1]);
    const std::int64_t missing = std::max<std::int64_t>(needed - devices[i].capacity, 1);
    if (missing < least.bytes) least = {missing, i};
  }
  return least;
}

}  // namespace

Split assess_split(const SplitRequest& request, std::vector<std::size_t> device_of) {
  Split split;
  std::vector<std::int64_t> workspace(request.devices.size());
  std::vector<bool> holds(request.devices.size());
  for (const SplitDevice& device : request.devices) split.used.push_back(device.fixed);
  for (std::size_t i = 0; i < device_of.size(); ++i) {
    const std::size_t device = device_of[i];
    holds[device] = true;
    split.used[device] += request.units[i].bytes;
    workspace[device] = std::max(workspace[device], request.units[i].workspace);
  }
  for (const SharedBytes& shared : request.shared) {
    if (device_of[shared.first] == device_of[shared.second]) continue;
    split.used[device_of[shared.second]] += shared.bytes;
    split.duplicated += shared.bytes;
  }
  for (std::size_t i = 0; i < request.devices.size(); ++i) {
    split.used[i] += workspace[i];
    if (!holds[i] || !is_gpu(request.devices[i]) || request.devices[i].capacity == 0) continue;
    split.largest_load = std::max(split.largest_load, LoadFraction{split.used[i], request.devices[i].capacity}.value());
  }
  split.device_of = std::move(device_of);
  return split;
}

Result<std::variant<Split, Shortfall>> find_split(const SplitRequest& request) {
  std::vector<Problem> problems;
  check_units(request, problems);
  check_shared(request, problems);
  check_devices(request, problems);
  if (!problems.empty()) return to_error(problems);

  using Outcome = std::variant<Split, Shortfall>;
  const UnitChain chain(request);
  const std::span<const SplitDevice> devices(request.devices);
  std::vector<std::size_t> cuts = filled_cuts(chain, 0, chain.size(), devices);
  if (cuts.back() < chain.size()) return Outcome(shortfall(chain, devices));

  const auto gpus = static_cast<std::size_t>(std::count_if(devices.begin(), devices.end(), is_gpu));
  if (gpus > 0) {
    const auto better = gpu_cuts(request, chain, devices.first(gpus), cuts[gpus - 1]);
    std::copy(better.begin(), better.end(), cuts.begin());
  }
  return Outcome(assess_split(request, devices_of(cuts)));
}

Result<Split> split_layers(const SplitRequest& request) {
  auto found = find_split(request);
  if (!found) return found.error();
  if (auto* split = std::get_if<Split>(&*found)) return std::move(*split);
  const Shortfall missing = std::get<Shortfall>(*found);
  const SplitDevice& device = request.devices[missing.device];
  return Error{
      Error::Kind::refused,
      fmt::format("the model does not fit: {} bytes ({}) are missing, if device {} with {} bytes alone were to "
                  "get them",
                  missing.bytes, to_string(ByteCount{missing.bytes}), to_string(device.place), device.capacity),
      "use more or larger GPUs, allow cpu or disk, or load the weights in a smaller type"};
}

}  // namespace muster::plan
