#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "system/files.hpp"
#include "system/signals.hpp"
#include "base/text.hpp"
#include "gpu/inventory.hpp"
#include "gpu/nvml_device.hpp"
#include "gpu/nvml_library.hpp"
#include "gpu/nvml_topology.hpp"
#include "gpu/xid_log.hpp"

namespace muster::gpu {
namespace {

using nvml::Return;

// The version of the loaded kernel module, for messages: "..Kernel Module  580.159.03  Release Build..".
std::string kernel_module_version(const std::filesystem::path& proc) {
  const auto text = read_file(proc / "driver/nvidia/version");
  if (!text) return "unknown version";
  const std::vector<std::string> words = split(text->substr(0, text->find('\n')), ' ');
  const auto version = std::ranges::find_if(words, [](const std::string& word) {
    return word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos;
  });
  return version != words.end() ? *version : "unknown version";
}

Error to_error(const nvml::Calls& calls, Return code, std::string_view question, const MachinePaths& paths) {
  const std::string seen = fmt::format("NVML answers \"{}\" when asked for {}", nvml::describe(calls, code), question);
  switch (code) {
    case Return::versions_differ:
      return {Error::Kind::failed,
              fmt::format("{}: driver and library versions differ, the loaded kernel module is {}", seen,
                          kernel_module_version(paths.proc)),
              "reboot, or reload the module when no process uses it: rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia "
              "&& modprobe nvidia"};
    case Return::unknown:
      return {
          Error::Kind::failed, seen,
          "in a container: it lost its GPU devices, as happens after a systemctl daemon-reload on the host; restart "
          "the container, and to prevent it start it with --device nvidia.com/gpu=all (CDI) or one --device for "
          "each /dev/nvidia* node. Elsewhere: dmesg | grep NVRM tells what the driver met"};
    case Return::no_permission:
      return {Error::Kind::failed, seen,
              "check that you may read and write /dev/nvidiactl and /dev/nvidia0 ..: ls -l /dev/nvidia*"};
    default:
      return {Error::Kind::failed, seen, "nvidia-smi and dmesg | grep NVRM tell what the driver met"};
  }
}

Snapshot without_gpus(DriverState state, std::string explanation) {
  Snapshot snapshot;
  snapshot.driver = state;
  snapshot.source = "NVML";
  snapshot.explanation = std::move(explanation);
  return snapshot;
}

void read_versions(const nvml::Calls& calls, Snapshot& snapshot) {
  std::array<char, 128> text{};
  if (calls.driver_version != nullptr &&
      calls.driver_version(text.data(), static_cast<unsigned>(text.size() - 1)) == Return::success)
    snapshot.driver_version = text.data();
  int cuda = 0;
  if (calls.cuda_version != nullptr && calls.cuda_version(&cuda) == Return::success && cuda > 0)
    snapshot.cuda_version = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
}

// Note [NVML stays open]: starting NVML takes longer than everything that is asked of it, and stopping it takes a
// while, too. It counts its users itself, so a second inventory of this process starts it at no cost; the end of the
// process closes it.
class NvmlInventory final : public Inventory {
 public:
  NvmlInventory(std::optional<std::filesystem::path> library, MachinePaths paths)
      : library_(std::move(library)), paths_(std::move(paths)), xids_(paths_.kernel_log) {}

  Result<Snapshot> read(Detail detail) override {
    if (!calls_) {
      auto missing = start();
      if (!missing) return missing.error();
      if (*missing) return std::move(**missing);
    }
    return read_devices(*calls_, detail);
  }

 private:
  // Starts NVML; a machine without a driver is the snapshot that says so. Tried again at each read until it
  // succeeds, because a driver can be loaded later.
  Result<std::optional<Snapshot>> start() {
    std::string explanation;
    auto library = nvml::find_library(library_, explanation);
    if (!library) return std::optional(without_gpus(DriverState::no_driver, explanation));
    const auto calls = nvml::resolve(*library);
    if (!calls) return calls.error();
    // The driver starts threads of its own here: none of them may be the one that a signal to this process comes to.
    const BlockedSignals blocked;
    const Return code = calls->init();
    if (code == Return::driver_not_loaded || code == Return::library_not_found)
      return std::optional(without_gpus(
          DriverState::no_driver, fmt::format("the NVIDIA driver library is there, but it answers \"{}\": the kernel "
                                              "module is not loaded (modprobe nvidia)",
                                              nvml::describe(*calls, code))));
    if (code != Return::success) return to_error(*calls, code, "a session", paths_);
    calls_ = *calls;  // Note [NVML stays open]
    return std::optional<Snapshot>{};
  }

  Result<Snapshot> read_devices(const nvml::Calls& calls, Detail detail) {
    unsigned count = 0;
    if (const Return code = calls.device_count(&count); code != Return::success)
      return to_error(calls, code, "the number of GPUs", paths_);
    Snapshot snapshot = count > 0 ? Snapshot{} : without_gpus(DriverState::no_devices, "NVML lists no GPU");
    snapshot.source = "NVML";
    std::vector<nvml::Place> places;
    std::optional<Error> failure;
    for (unsigned i = 0; i < count; ++i) {
      const GpuIndex index{static_cast<int>(i)};
      nvml::Device device = nullptr;
      const Return code = calls.device_by_index(i, &device);
      if (code == Return::success) {
        snapshot.gpus.push_back(nvml::read_gpu(calls, index, device, detail, paths_));
        if (!snapshot.gpus.back().lost) places.push_back({index, device, std::nullopt});
        continue;
      }
      // A GPU that belongs to others (a job's or container's device list) is not ours to see. Any other answer: it is
      // there, and cannot be reached.
      if (code != Return::gpu_is_lost) failure = to_error(calls, code, fmt::format("GPU {}", i), paths_);
      if (code == Return::no_permission) continue;
      snapshot.gpus.push_back({});
      snapshot.gpus.back().facts.index = index;
      snapshot.gpus.back().lost = true;
    }
    // When no GPU at all can be reached, it is the driver that is in trouble, not a GPU.
    if (failure && places.empty()) return *failure;
    if (detail == Detail::everything) complete(calls, places, snapshot);
    return snapshot;
  }

  void complete(const nvml::Calls& calls, std::vector<nvml::Place>& places, Snapshot& snapshot) {
    read_versions(calls, snapshot);
    for (nvml::Place& place : places) place.address = nvml::read_pci_address(calls, place.device);
    snapshot.links = links_between(calls, places);
    xids_.refresh();
    for (Gpu& gpu : snapshot.gpus)
      if (const auto address = parse_pci_address(gpu.facts.pci_bus_id.value_or("")))
        gpu.reading.recent_xids = xids_.codes_for(*address);
  }

  // Links take hundreds of questions, more than everything else together, and change only when something breaks: who
  // looks every second gets them as they were a moment ago.
  const std::vector<Link>& links_between(const nvml::Calls& calls, const std::vector<nvml::Place>& places) {
    constexpr std::chrono::seconds a_moment(30);
    std::vector<nvml::Device> devices;
    for (const nvml::Place& place : places) devices.push_back(place.device);
    const auto now = std::chrono::steady_clock::now();
    if (!links_read_ || devices != linked_ || now - *links_read_ > a_moment) {
      links_ = nvml::read_links(calls, places);
      linked_ = std::move(devices);
      links_read_ = now;
    }
    return links_;
  }

  std::optional<std::filesystem::path> library_;
  MachinePaths paths_;
  XidLog xids_;
  std::optional<nvml::Calls> calls_;  // once NVML is started
  std::vector<Link> links_;
  std::vector<nvml::Device> linked_;  // between which
  std::optional<std::chrono::steady_clock::time_point> links_read_;
};

}  // namespace

std::unique_ptr<Inventory> open_nvml_inventory(std::optional<std::filesystem::path> library, MachinePaths paths) {
  return std::make_unique<NvmlInventory>(std::move(library), std::move(paths));
}

}  // namespace muster::gpu
