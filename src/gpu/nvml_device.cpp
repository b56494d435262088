#include "gpu/nvml_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <type_traits>
#include <vector>

#include "system/files.hpp"
#include "base/text.hpp"
#include "gpu/cpu_list.hpp"
#include "gpu/multiprocessor.hpp"
#include "gpu/process_owners.hpp"

namespace muster::gpu::nvml {
namespace {

constexpr int bits_per_word = std::numeric_limits<unsigned long>::digits;

std::optional<int> to_int(unsigned value) {
  if (value > static_cast<unsigned>(std::numeric_limits<int>::max())) return std::nullopt;
  return static_cast<int>(value);
}

std::optional<ByteCount> to_bytes(Bytes value) {
  if (value > static_cast<Bytes>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return ByteCount{static_cast<std::int64_t>(value)};
}

std::vector<int> numbers_of(std::span<const unsigned long> words) {
  std::vector<int> numbers;
  for (std::size_t word = 0; word < words.size(); ++word)
    for (unsigned long left = words[word]; left != 0; left &= left - 1)
      numbers.push_back(static_cast<int>(word) * bits_per_word + std::countr_zero(left));
  return numbers;
}

struct MemoryFigures {
  std::optional<ByteCount> total, reserved, free, used;
};

// Asks one device. Once it is lost, nothing more is asked.
class Questions {
 public:
  Questions(const Calls& calls, Device device) : calls_(calls), device_(device) {}

  bool lost() const { return lost_; }
  const Calls& calls() const { return calls_; }

  template <class... Arguments>
  Return ask(Call<Device, Arguments...> call, std::type_identity_t<Arguments>... arguments) {
    if (call == nullptr) return Return::function_not_found;
    if (lost_) return Return::gpu_is_lost;
    const Return code = call(device_, arguments...);
    lost_ = code == Return::gpu_is_lost || code == Return::reset_required;
    return code;
  }

  template <class... Arguments>
  bool answers(Call<Device, Arguments...> call, std::type_identity_t<Arguments>... arguments) {
    return ask(call, arguments...) == Return::success;
  }

  std::optional<unsigned> number(Call<Device, unsigned*> call) {
    unsigned value = 0;
    return answers(call, &value) ? std::optional(value) : std::nullopt;
  }

  std::optional<std::string> text(Call<Device, char*, unsigned> call) {
    std::array<char, 256> characters{};
    if (!answers(call, characters.data(), static_cast<unsigned>(characters.size() - 1))) return std::nullopt;
    return std::string(characters.data());
  }

  // Some drivers export the second version and then refuse its argument: the first one answers there.
  MemoryFigures memory() {
    MemoryWithReserved all{};
    all.version = MemoryWithReserved::expected_version;
    if (answers(calls_.memory_with_reserved, &all))
      return {to_bytes(all.total), to_bytes(all.reserved), to_bytes(all.free), to_bytes(all.used)};
    Memory some{};
    if (answers(calls_.memory, &some)) return {to_bytes(some.total), {}, to_bytes(some.free), to_bytes(some.used)};
    return {};
  }

 private:
  const Calls& calls_;
  Device device_;
  bool lost_ = false;
};

template <class Record>
std::vector<Record> list_processes(Questions& questions, Call<Device, unsigned*, Record*> call) {
  std::vector<Record> records(32);
  // Processes may start between two questions, so the answer may be too long again; not for ever, though.
  for (int attempt = 0; attempt < 8; ++attempt) {
    auto count = static_cast<unsigned>(records.size());
    const Return code = questions.ask(call, &count, records.data());
    if (code == Return::success) {
      records.resize(std::min<std::size_t>(count, records.size()));
      return records;
    }
    if (code != Return::insufficient_size) return {};
    records.resize(std::max<std::size_t>(count, records.size()) * 2);
  }
  return {};
}

using MemoryByPid = std::map<pid_t, std::optional<ByteCount>>;

// A process with both kinds of work is listed twice, with the same memory; in MIG mode once for each instance, with
// that instance's memory.
template <class Record>
MemoryByPid sum_by_pid(const std::vector<Record>& records) {
  MemoryByPid sums;
  for (const Record& record : records) {
    std::optional<ByteCount>& sum = sums[static_cast<pid_t>(record.pid)];
    if (const auto memory = to_bytes(record.memory)) sum = sum.value_or(ByteCount{}) + *memory;
  }
  return sums;
}

MemoryByPid read_kind(Questions& questions, const ProcessCalls& calls) {
  return calls.list != nullptr ? sum_by_pid(list_processes(questions, calls.list))
                               : sum_by_pid(list_processes(questions, calls.list_old));
}

std::vector<GpuProcess> read_processes(Questions& questions, const std::filesystem::path& proc) {
  const Calls& calls = questions.calls();
  MemoryByPid all;
  for (const ProcessCalls* kind : {&calls.compute_processes, &calls.shared_processes})
    for (const auto& [pid, memory] : read_kind(questions, *kind)) all[pid] = std::max(all[pid], memory);
  std::set<pid_t> only_draws;
  for (const auto& [pid, memory] : read_kind(questions, calls.graphics_processes)) {
    if (!all.contains(pid)) only_draws.insert(pid);
    all[pid] = std::max(all[pid], memory);
  }
  std::vector<GpuProcess> processes;
  for (const auto& [pid, memory] : all) {
    GpuProcess process;
    process.pid = pid;
    process.memory = memory;
    process.graphics = only_draws.contains(pid);
    add_owner(process, proc);
    processes.push_back(std::move(process));
  }
  return processes;
}

void read_memory(Questions& questions, Gpu& gpu) {
  const MemoryFigures memory = questions.memory();
  gpu.facts.memory_total = memory.total;
  gpu.reading.memory_used = memory.used;
  gpu.reading.memory_reserved = memory.reserved;
  gpu.reading.memory_free = memory.free;
}

void read_instances(Questions& questions, GpuFacts& facts) {
  const Calls& calls = questions.calls();
  unsigned current = 0;
  unsigned pending = 0;
  if (!questions.answers(calls.mig_mode, &current, &pending) || current == 0) return;
  facts.mig_mode = true;
  const unsigned most = questions.number(calls.mig_most_devices).value_or(0);
  for (unsigned position = 0; position < most; ++position) {
    Device device = nullptr;
    if (!questions.answers(calls.mig_device_by_index, position, &device)) continue;  // a place that is not used
    Questions instance(calls, device);
    const auto uuid = instance.text(calls.uuid);
    const auto gpu_instance = to_int(instance.number(calls.gpu_instance).value_or(~0u));
    const auto compute_instance = to_int(instance.number(calls.compute_instance).value_or(~0u));
    if (!uuid || !gpu_instance || !compute_instance) continue;
    facts.mig_instances.push_back(
        {GpuUuid{*uuid}, *gpu_instance, *compute_instance, instance.memory().total, instance.text(calls.name)});
  }
}

std::optional<int> read_numa_node(Questions& questions, std::optional<PciAddress> address,
                                  const std::filesystem::path& sys) {
  if (address)
    if (const auto text = read_file(sys / "bus/pci/devices" / sysfs_name(*address) / "numa_node")) {
      const auto node = parse_number<int>(trim(*text));
      return node && *node >= 0 ? node : std::nullopt;  // the kernel writes -1 for "none"
    }
  std::array<unsigned long, 16> words{};
  if (!questions.answers(questions.calls().memory_affinity, static_cast<unsigned>(words.size()), words.data(), 0u))
    return std::nullopt;
  const std::vector<int> nodes = numbers_of(words);
  return nodes.size() == 1 ? std::optional(nodes.front()) : std::nullopt;
}

// The kernel tells at once what the driver takes ten milliseconds to find out.
std::optional<std::string> read_cpu_affinity(Questions& questions, std::optional<PciAddress> address,
                                             const std::filesystem::path& sys) {
  if (address)
    if (const auto text = read_file(sys / "bus/pci/devices" / sysfs_name(*address) / "local_cpulist"))
      if (!trim(*text).empty()) return std::string(trim(*text));
  std::array<unsigned long, 64> words{};
  if (!questions.answers(questions.calls().cpu_affinity, static_cast<unsigned>(words.size()), words.data()))
    return std::nullopt;
  const std::string text = to_cpu_list(numbers_of(words));
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<PciAddress> address_of(Questions& questions) {
  PciInfo info{};
  if (!questions.answers(questions.calls().pci_info, &info)) return std::nullopt;
  return PciAddress{info.domain, info.bus, info.device};
}

void read_identity(Questions& questions, GpuFacts& facts) {
  if (const auto uuid = questions.text(questions.calls().uuid)) facts.uuid = GpuUuid{*uuid};
  facts.name = questions.text(questions.calls().name);
  if (const auto address = address_of(questions)) facts.pci_bus_id = to_string(*address);
  read_instances(questions, facts);
}

void read_facts(Questions& questions, GpuFacts& facts, const std::filesystem::path& sys) {
  const Calls& calls = questions.calls();
  const auto address = parse_pci_address(facts.pci_bus_id.value_or(""));
  ComputeCapability capability;
  if (questions.answers(calls.compute_capability, &capability.major, &capability.minor))
    facts.compute_capability = capability;
  const auto cores = questions.number(calls.core_count);
  const auto per_multiprocessor =
      facts.compute_capability ? cores_per_multiprocessor(*facts.compute_capability) : std::nullopt;
  if (cores && per_multiprocessor)
    facts.multiprocessor_count = to_int(*cores / static_cast<unsigned>(*per_multiprocessor));
  facts.numa_node = read_numa_node(questions, address, sys);
  facts.cpu_affinity = read_cpu_affinity(questions, address, sys);
}

std::optional<int> read_clock(Questions& questions, int domain) {
  unsigned megahertz = 0;
  return questions.answers(questions.calls().clock, domain, &megahertz) ? to_int(megahertz) : std::nullopt;
}

std::optional<std::int64_t> read_ecc_errors(Questions& questions, int kind) {
  unsigned long long count = 0;
  if (!questions.answers(questions.calls().ecc_errors, kind, 0, &count)) return std::nullopt;
  return static_cast<std::int64_t>(count);
}

void read_activity(Questions& questions, GpuReading& reading) {
  const Calls& calls = questions.calls();
  if (Utilization percent{}; questions.answers(calls.utilization, &percent)) {
    reading.utilization = to_int(percent.gpu);
    reading.memory_utilization = to_int(percent.memory);
  }
  if (unsigned celsius = 0; questions.answers(calls.temperature, 0, &celsius)) reading.temperature = to_int(celsius);
  if (const auto milliwatts = questions.number(calls.power)) reading.power = *milliwatts / 1000.0;
  if (const auto milliwatts = questions.number(calls.power_limit)) reading.power_limit = *milliwatts / 1000.0;
  reading.clock_sm = read_clock(questions, 1);
  reading.clock_memory = read_clock(questions, 2);
}

void read_faults(Questions& questions, GpuReading& reading) {
  reading.ecc_corrected = read_ecc_errors(questions, 0);
  reading.ecc_uncorrected = read_ecc_errors(questions, 1);
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (questions.answers(questions.calls().remapped_rows, &corrected, &uncorrected, &pending, &failed)) {
    reading.row_remap_pending = pending != 0;
    reading.row_remap_failed = failed != 0;
  }
}

}  // namespace

std::optional<PciAddress> read_pci_address(const Calls& calls, Device device) {
  Questions questions(calls, device);
  return address_of(questions);
}

Gpu read_gpu(const Calls& calls, GpuIndex index, Device device, Detail detail, const MachinePaths& paths) {
  Gpu gpu;
  gpu.facts.index = index;
  Questions questions(calls, device);
  read_identity(questions, gpu.facts);
  if (detail == Detail::everything) read_facts(questions, gpu.facts, paths.sys);
  read_memory(questions, gpu);
  gpu.processes = read_processes(questions, paths.proc);
  if (detail == Detail::everything) {
    read_activity(questions, gpu.reading);
    read_faults(questions, gpu.reading);
  }
  gpu.lost = questions.lost() || !gpu.facts.uuid;  // what cannot be named cannot be given to anybody
  return gpu;
}

}  // namespace muster::gpu::nvml
