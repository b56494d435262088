// What concerns the GPUs: driver, library, devices, mask, order, leases.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "doctor/checks.hpp"
#include "gpu/health.hpp"
#include "gpu/mask.hpp"

namespace muster::doctor {
namespace {

constexpr const char* container_remedy =
    "in a container: start it with --gpus all (docker) or --device nvidia.com/gpu=all (CDI), and "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility";

std::string count_of(std::size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

bool has_hardware(const DriverFacts& driver) { return !driver.device_files.empty() || !driver.pci_devices.empty(); }

std::string hardware(const DriverFacts& driver) {
  std::vector<std::string> seen;
  if (!driver.device_files.empty()) seen.push_back(join(driver.device_files, ", "));
  if (!driver.pci_devices.empty())
    seen.push_back(fmt::format("{} ({})", count_of(driver.pci_devices.size(), "NVIDIA PCI device"),
                               join(driver.pci_devices, ", ")));
  return join(seen, " and ");
}

bool driver_answers(const HostFacts& facts) {
  return facts.snapshot && facts.snapshot->driver != gpu::DriverState::no_driver;
}

// "4 GPUs: 2 × NVIDIA A100, 2 × NVIDIA T4"
std::string models(const gpu::Snapshot& snapshot) {
  std::map<std::string, int> counts;
  for (const gpu::Gpu& gpu : snapshot.gpus) ++counts[gpu.facts.name.value_or("unnamed")];
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} × {}", count, name));
  return fmt::format("{}: {}", count_of(snapshot.gpus.size(), "GPU"), join(parts, ", "));
}

std::string hidden_gpus(const gpu::Snapshot& snapshot, const std::vector<gpu::VisibleDevice>& visible) {
  std::vector<std::string> hidden;
  for (const gpu::Gpu& gpu : snapshot.gpus)
    if (std::ranges::find(visible, gpu.facts.index, &gpu::VisibleDevice::gpu) == visible.end())
      hidden.push_back(std::to_string(gpu::number(gpu.facts.index)));
  return join(hidden, ", ");
}

bool names_numbers(std::string_view mask) {
  mask = trim(mask);
  return !mask.empty() && mask != "-1" && mask != "NoDevFiles" && !mask.starts_with("GPU-") &&
         !mask.starts_with("MIG-");
}

}  // namespace

// The kernel's side: check_nvml judges the library's side.
Check check_driver(const HostFacts& facts) {
  Verdict verdict("driver");
  if (facts.inventory_file) {
    verdict.pass(fmt::format("not asked: the GPUs are read from {}", facts.inventory_file->string()));
  } else if (facts.driver.module_version) {
    verdict.pass(fmt::format("NVIDIA kernel module {}, {}", *facts.driver.module_version,
                             count_of(facts.driver.device_files.size(), "device file")));
  } else if (driver_answers(facts)) {
    verdict.pass(fmt::format("the driver answers through its library (version {})",
                             facts.snapshot->driver_version.value_or("not known")));
  } else if (has_hardware(facts.driver)) {
    verdict.fail(fmt::format("there is NVIDIA hardware ({}), and no driver is loaded", hardware(facts.driver)),
                 fmt::format("sudo modprobe nvidia, or install the driver (Debian: apt install nvidia-driver; Ubuntu: "
                             "ubuntu-drivers install) and reboot; {}",
                             container_remedy));
  } else {
    verdict.warn(
        "no NVIDIA driver and no NVIDIA device: CPU ranks only",
        fmt::format("nothing for CPU ranks (--device cpu); for GPUs install the NVIDIA driver; {}", container_remedy));
  }
  return verdict.take();
}

Check check_nvml(const HostFacts& facts) {
  Verdict verdict("nvml");
  if (facts.inventory_file) {
    verdict.pass(fmt::format("not asked: the GPUs are read from {}", facts.inventory_file->string()));
  } else if (!facts.snapshot) {
    const Error& error = facts.snapshot.error();
    verdict.fail(error.what,
                 error.remedy.empty() ? "nvidia-smi and dmesg | grep NVRM tell what the driver met" : error.remedy);
  } else if (driver_answers(facts)) {
    verdict.pass(fmt::format("driver {}, CUDA up to {}", facts.snapshot->driver_version.value_or("of unknown version"),
                             facts.snapshot->cuda_version.value_or("an unknown version")));
  } else if (has_hardware(facts.driver) || facts.driver.module_version) {
    verdict.fail(
        facts.snapshot->explanation,
        fmt::format("install the library of the driver that is loaded (Debian and Ubuntu: libnvidia-ml1 or "
                    "libnvidia-compute-VERSION), or name it: export MUSTER_NVML_LIBRARY=/path/libnvidia-ml.so.1; {}",
                    container_remedy));
  } else {
    verdict.warn(facts.snapshot->explanation, "nothing for CPU ranks; it comes with the NVIDIA driver");
  }
  return verdict.take();
}

Check check_inventory(const HostFacts& facts) {
  Verdict verdict("inventory");
  if (!facts.snapshot) {
    const Error& error = facts.snapshot.error();
    if (facts.inventory_file)
      verdict.fail(error.what,
                   error.remedy.empty() ? "correct the file, or unset MUSTER_GPUS to ask the driver" : error.remedy);
    else
      verdict.fail("the GPUs are not known, because NVML does not answer", "follow the remedy of the check nvml");
    return verdict.take();
  }
  const gpu::Snapshot& snapshot = *facts.snapshot;
  if (snapshot.gpus.empty()) {
    const bool expected = snapshot.driver == gpu::DriverState::no_devices && !facts.inventory_file;
    if (expected && has_hardware(facts.driver))
      verdict.fail(fmt::format("no GPU: {}, but there is {}", snapshot.explanation, hardware(facts.driver)),
                   fmt::format("dmesg | grep NVRM tells why the driver refuses it; {}", container_remedy));
    else if (expected)
      verdict.warn(fmt::format("no GPU: {}", snapshot.explanation),
                   fmt::format("nothing for CPU ranks; {}", container_remedy));
    else
      verdict.pass("no GPU: CPU ranks only");
    return verdict.take();
  }
  verdict.pass(models(snapshot));
  for (const gpu::Gpu& gpu : snapshot.gpus)
    if (const auto sickness = gpu::sickness(gpu)) {
      const int index = gpu::number(gpu.facts.index);
      verdict.fail(
          fmt::format("GPU {} is sick: {}", index, *sickness),
          "leave it out (muster never picks it by itself), then reset it while nobody uses it: sudo nvidia-smi "
          "--gpu-reset -i INDEX; if that does not help reboot, and have it replaced if it comes back");
    }
  return verdict.take();
}

Check check_mask(const HostFacts& facts) {
  Verdict verdict("mask");
  if (!facts.mask) {
    verdict.pass(facts.snapshot ? fmt::format("CUDA_VISIBLE_DEVICES is not set: {} visible",
                                              count_of(facts.snapshot->gpus.size(), "GPU"))
                                : "CUDA_VISIBLE_DEVICES is not set");
    return verdict.take();
  }
  if (!facts.snapshot) {
    verdict.warn(fmt::format("CUDA_VISIBLE_DEVICES=\"{}\" cannot be judged: the GPUs are not known", *facts.mask),
                 "follow the remedy of the check inventory");
    return verdict.take();
  }
  const auto visible = gpu::read_mask(facts.mask, facts.snapshot->gpus);
  if (!visible) {
    verdict.fail(visible.error().what, visible.error().remedy);
    return verdict.take();
  }
  const std::size_t all = facts.snapshot->gpus.size();
  if (visible->empty() && all > 0) {
    verdict.warn(
        fmt::format("CUDA_VISIBLE_DEVICES=\"{}\" hides all {}: CPU ranks only", *facts.mask, count_of(all, "GPU")),
        "unset CUDA_VISIBLE_DEVICES to use them");
    return verdict.take();
  }
  const std::string hidden = hidden_gpus(*facts.snapshot, *visible);
  verdict.pass(fmt::format("CUDA_VISIBLE_DEVICES=\"{}\" shows {} on a machine with {}{}", *facts.mask,
                           count_of(visible->size(), "device"), count_of(all, "GPU"),
                           hidden.empty() ? "" : "; hidden: " + hidden));
  return verdict.take();
}

Check check_device_order(const HostFacts& facts) {
  Verdict verdict("device order");
  const std::string order =
      facts.device_order ? fmt::format("CUDA_DEVICE_ORDER={}", *facts.device_order) : "CUDA_DEVICE_ORDER is not set";
  std::set<std::string> names;
  if (facts.snapshot)
    for (const gpu::Gpu& gpu : facts.snapshot->gpus) names.insert(gpu.facts.name.value_or(""));
  if (facts.device_order == "PCI_BUS_ID") {
    verdict.pass(order + ": CUDA counts as nvidia-smi does");
  } else if (names.size() < 2) {
    verdict.pass(order + (names.empty() ? ": no matter without a GPU" : ": no matter, the GPUs are of one model"));
  } else if (!facts.mask || !names_numbers(*facts.mask)) {
    verdict.pass(order + ": no matter, no numbers are inherited; muster sets it for what it starts");
  } else {
    verdict.warn(
        fmt::format("{}, CUDA_VISIBLE_DEVICES=\"{}\" holds numbers, and the GPUs are of {} models: CUDA counts the "
                    "fastest first, nvidia-smi and muster by PCI bus, so the numbers may mean other GPUs",
                    order, *facts.mask, names.size()),
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID where the mask is set, or write UUIDs: muster gpus pick --uuid");
  }
  return verdict.take();
}

Check check_leases(const HostFacts& facts) {
  Verdict verdict("leases");
  if (!facts.leases) {
    const Error& error = facts.leases.error();
    verdict.fail(error.what, error.remedy.empty()
                                 ? "name a folder that all users can write: export MUSTER_LEASE_DIR=/path"
                                 : error.remedy);
    return verdict.take();
  }
  std::vector<std::string> held;
  for (const auto& [uuid, holder] : facts.holders) held.push_back(fmt::format("{} by {}", uuid, describe(holder)));
  verdict.pass(fmt::format("{}: {}", facts.lease_folder.string(),
                           held.empty()
                               ? "no GPU is leased"
                               : fmt::format("{} leased: {}", count_of(held.size(), "device"), join(held, ", "))));
  return verdict.take();
}

}  // namespace muster::doctor
