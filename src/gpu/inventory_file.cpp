#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/document.hpp"
#include "system/files.hpp"
#include "base/node_reader.hpp"
#include "base/text.hpp"
#include "gpu/inventory.hpp"
#include "gpu/inventory_keys.hpp"

namespace muster::gpu {
namespace {

// SplitMix64: neighbouring seeds give unrelated numbers.
std::uint64_t scramble(std::uint64_t seed) {
  seed += 0x9e3779b97f4a7c15u;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
  return seed ^ (seed >> 31);
}

// The same seed gives the same UUID in every version of muster: leases are kept by it.
GpuUuid generate_uuid(std::string_view prefix, std::uint64_t seed) {
  const std::uint64_t high = scramble(2 * seed);
  const std::uint64_t low = scramble(2 * seed + 1);
  return {fmt::format("{}{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", prefix, high >> 32, (high >> 16) & 0xffff, high & 0xffff,
                      low >> 48, low & 0xffffffffffff)};
}

// Turns entries into GPUs: repeats, numbers, names and defaults; then checks what can only be seen on the whole.
class Assembly {
 public:
  Assembly(NodeReader& reader, InventoryEntries entries) : reader_(reader), entries_(std::move(entries)) {}

  Snapshot assemble() {
    Snapshot snapshot;
    snapshot.source = reader_.source();
    snapshot.driver_version = entries_.driver_version;
    snapshot.cuda_version = entries_.cuda_version;
    spread_count();
    for (const GpuEntry& entry : entries_.gpus) add(entry);
    check_unique();
    for (auto& [gpu, position] : gpus_) snapshot.gpus.push_back(std::move(gpu));
    std::ranges::sort(snapshot.gpus, {}, [](const Gpu& gpu) { return gpu.facts.index; });
    snapshot.links = links();
    if (snapshot.gpus.empty()) describe_emptiness(snapshot);
    if (!snapshot.gpus.empty() && entries_.driver != DriverState::ready)
      reader_.refuse(entries_.driver_position,
                     fmt::format("a driver_state without GPUs, and {} GPUs", snapshot.gpus.size()),
                     "leave driver_state out, or write gpus: []");
    return snapshot;
  }

 private:
  struct Placed {
    Gpu gpu;
    TextPosition position;
  };

  void describe_emptiness(Snapshot& snapshot) const {
    const bool no_driver = entries_.driver == DriverState::no_driver;
    snapshot.driver = no_driver ? DriverState::no_driver : DriverState::no_devices;
    snapshot.explanation =
        fmt::format("{} {}", reader_.source(), no_driver ? "describes a machine without a driver" : "lists no GPU");
  }

  // A count beside "gpus" repeats the only entry.
  void spread_count() {
    if (!entries_.count) return;
    if (entries_.gpus.size() == 1 && !entries_.gpus.front().count)
      entries_.gpus.front().count = entries_.count;
    else
      reader_.refuse(entries_.count_position, fmt::format("count beside {} entries of gpus", entries_.gpus.size()),
                     "it repeats a single entry that has no count of its own; else write count inside the entries");
  }

  void add(const GpuEntry& entry) {
    const GpuFacts& facts = entry.gpu.facts;
    if (entry.count && (entry.index || facts.uuid || facts.pci_bus_id))
      reader_.refuse(entry.position, fmt::format("count: {} with an index, uuid or pci_bus_id", *entry.count),
                     "equal GPUs cannot share it; leave it out, or write one entry for each GPU");
    Gpu gpu = entry.gpu;
    if (entry.healthy == false)
      gpu.declared_unhealthy = entry.unhealthy_because.value_or("declared unhealthy in " + reader_.source());
    else if (entry.unhealthy_because)
      reader_.refuse(entry.position, "unhealthy_because without healthy: false", "write both or none");
    complete_memory(gpu, entry.position);
    for (int copy = 0; copy < entry.count.value_or(1); ++copy) place(gpu, entry);
  }

  void place(Gpu gpu, const GpuEntry& entry) {
    const int index = entry.index.value_or(next_index_);
    next_index_ = index + 1;
    gpu.facts.index = GpuIndex{index};
    const auto seed = static_cast<std::uint64_t>(index) << 16;
    if (!gpu.facts.uuid && !(gpu.lost && entry.uuid_not_known)) gpu.facts.uuid = generate_uuid("GPU-", seed);
    std::uint64_t instance_seed = seed;
    for (MigInstance& instance : gpu.facts.mig_instances) {
      ++instance_seed;
      if (instance.uuid.text.empty()) instance.uuid = generate_uuid("MIG-", instance_seed);
    }
    gpus_.push_back({std::move(gpu), entry.position});
  }

  // A file describes a machine: what it does not say is used is free.
  void complete_memory(Gpu& gpu, TextPosition position) {
    GpuReading& reading = gpu.reading;
    if (!gpu.facts.memory_total) return;
    const ByteCount total = *gpu.facts.memory_total;
    if (!reading.memory_free && !reading.memory_used && !gpu.lost) reading.memory_used = ByteCount{};
    const ByteCount used = reading.memory_used.value_or(ByteCount{});
    const ByteCount reserved = reading.memory_reserved.value_or(ByteCount{});
    const ByteCount free = reading.memory_free.value_or(ByteCount{});
    if (used > total) return refuse_part(position, "memory_used", used, total);
    if (reserved > total) return refuse_part(position, "memory_reserved", reserved, total);
    if (free > total) return refuse_part(position, "memory_free", free, total);
    if (reserved > total - used || free > total - used - reserved)
      return reader_.refuse(position,
                            fmt::format("memory_used {}, memory_reserved {} and memory_free {} of memory_total {}",
                                        to_string(used), to_string(reserved), to_string(free), to_string(total)),
                            "together they must not be more than the total");
    if (!reading.memory_free && reading.memory_used) reading.memory_free = total - reserved - used;
    for (const MigInstance& instance : gpu.facts.mig_instances)
      if (instance.memory_total.value_or(ByteCount{}) > total)
        refuse_part(position, "memory_total of a MIG instance", *instance.memory_total, total);
  }

  void refuse_part(TextPosition position, std::string_view key, ByteCount part, ByteCount total) {
    reader_.refuse(position,
                   fmt::format("{}: {} ({} bytes) of memory_total {} ({} bytes)", key, to_string(part), part.value,
                               to_string(total), total.value),
                   "it must not be more than the total");
  }

  void check_unique() {
    std::map<std::string, TextPosition> seen;
    const auto once = [&](const std::string& what, TextPosition position) {
      const auto [earlier, first] = seen.emplace(to_lower(what), position);
      if (!first)
        reader_.refuse(position, fmt::format("{} a second time (first on line {})", what, earlier->second.line),
                       "give each GPU its own, or leave it out");
    };
    for (const auto& [gpu, position] : gpus_) {
      once(fmt::format("index {}", number(gpu.facts.index)), position);
      if (gpu.facts.uuid) once("uuid " + gpu.facts.uuid->text, position);
      if (gpu.facts.pci_bus_id) once("pci_bus_id " + *gpu.facts.pci_bus_id, position);
      for (const MigInstance& instance : gpu.facts.mig_instances) {
        once("uuid " + instance.uuid.text, position);
        once(fmt::format("gpu_instance {}, compute_instance {} of GPU {}", instance.gpu_instance,
                         instance.compute_instance, number(gpu.facts.index)),
             position);
      }
    }
  }

  bool known(GpuIndex index) const {
    return std::ranges::any_of(gpus_, [&](const Placed& placed) { return placed.gpu.facts.index == index; });
  }

  std::vector<Link> links() {
    std::vector<Link> links;
    for (const auto& [link, position] : entries_.links) {
      for (const GpuIndex end : {link.a, link.b})
        if (!known(end))
          reader_.refuse(position, fmt::format("a link to GPU {}, which the file does not list", number(end)),
                         fmt::format("the file lists {} GPUs", gpus_.size()));
      if (link.a == link.b)
        reader_.refuse(position, fmt::format("a link of GPU {} to itself", number(link.a)), "name two GPUs");
      if (link.lanes > 0 && link.kind != LinkKind::nvlink)
        reader_.refuse(position, fmt::format("lanes: {} on a {} link", link.lanes, to_string(link)),
                       "only nvlink has lanes");
      if (find_link(links, link.a, link.b))
        reader_.refuse(position,
                       fmt::format("the link between {} and {} a second time", number(link.a), number(link.b)),
                       "name each pair once");
      links.push_back(link);
    }
    std::ranges::sort(links, {}, [](const Link& link) { return std::pair(link.a, link.b); });
    return links;
  }

  NodeReader& reader_;
  InventoryEntries entries_;
  std::vector<Placed> gpus_;
  int next_index_ = 0;
};

class FileInventory final : public Inventory {
 public:
  explicit FileInventory(std::filesystem::path file) : file_(std::move(file)) {}

  // A file costs the same whatever is asked; a reader of memory alone finds the other facts too.
  Result<Snapshot> read(Detail) override {
    const auto text = read_file(file_);
    if (!text) return text.error();
    return parse_inventory(*text, file_.string());
  }

 private:
  std::filesystem::path file_;
};

}  // namespace

Result<Snapshot> parse_inventory(std::string_view text, std::string_view source) {
  const auto root = parse_document(text, source);
  if (!root) return root.error();
  NodeReader reader(source);
  InventoryEntries entries = read_entries(reader, *root);
  Snapshot snapshot = Assembly(reader, std::move(entries)).assemble();
  if (!reader.problems().empty()) return to_error(reader.problems());
  return snapshot;
}

std::unique_ptr<Inventory> open_file_inventory(std::filesystem::path file) {
  return std::make_unique<FileInventory>(std::move(file));
}

}  // namespace muster::gpu
