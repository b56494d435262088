#include "gpu/inventory_keys.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "gpu/cpu_list.hpp"
#include "gpu/pci_address.hpp"

namespace muster::gpu {
namespace {

constexpr int most_gpus = 1024;

// Letters, digits and dashes after the prefix: the name goes into masks and file names.
std::optional<GpuUuid> read_uuid(NodeReader& reader, const Node& node, std::string_view prefix) {
  const bool good =
      node.kind == Node::Kind::scalar && node.text.starts_with(prefix) && node.text.size() > prefix.size() &&
      std::ranges::all_of(node.text, [](unsigned char c) { return c < 128 && (std::isalnum(c) != 0 || c == '-'); });
  if (good) return GpuUuid{node.text};
  reader.refuse_value(node, std::string(prefix) + " followed by letters, digits and dashes");
  return std::nullopt;
}

std::optional<ComputeCapability> read_capability(NodeReader& reader, const Node& node) {
  if (node.kind == Node::Kind::scalar) {
    const std::vector<std::string> parts = split(node.text, '.');
    const auto major = parse_number<int>(parts.front());
    const auto minor = parse_number<int>(parts.back());
    if (parts.size() == 2 && major && minor && *major > 0 && *minor >= 0) return ComputeCapability{*major, *minor};
  }
  reader.refuse_value(node, "two numbers with a point between, as in 8.0");
  return std::nullopt;
}

std::optional<std::string> read_pci_bus_id(NodeReader& reader, const Node& node) {
  const auto address = node.kind == Node::Kind::scalar ? parse_pci_address(node.text) : std::nullopt;
  if (address) return to_string(*address);
  reader.refuse_value(node, "a PCI address, as in 00000000:3B:00.0");
  return std::nullopt;
}

std::optional<std::string> read_cpu_affinity(NodeReader& reader, const Node& node) {
  const auto cpus = node.kind == Node::Kind::scalar ? parse_cpu_list(node.text) : std::nullopt;
  if (cpus) return to_cpu_list(*cpus);
  reader.refuse_value(node, "a list of CPUs, as in 0-15,32-47");
  return std::nullopt;
}

std::optional<LinkKind> read_link_kind(NodeReader& reader, const Node& node) {
  for (const LinkWord& word : link_words)
    if (node.kind == Node::Kind::scalar && to_lower(node.text) == word.text) return word.kind;
  reader.refuse_value(node, "nvlink, pix, pxb, phb, node or sys");
  return std::nullopt;
}

std::optional<DriverState> read_driver_state(NodeReader& reader, const Node& node) {
  for (const DriverWord& word : driver_words)
    if (node.kind == Node::Kind::scalar && node.text == word.text) return word.state;
  reader.refuse_value(node, "ready, no_driver or no_devices");
  return std::nullopt;
}

// For what only the output of `muster gpus --json` has.
template <class Target>
void ignored(NodeReader&, const Node&, Target&) {}

constexpr std::array mig_keys{
    NodeKey<MigInstance>{"uuid", [](NodeReader& r, const Node& v,
                                    MigInstance& m) { m.uuid = read_uuid(r, v, "MIG-").value_or(GpuUuid{}); }},
    NodeKey<MigInstance>{"gpu_instance",
                         [](NodeReader& r, const Node& v, MigInstance& m) { m.gpu_instance = r.count(v).value_or(0); }},
    NodeKey<MigInstance>{"compute_instance", [](NodeReader& r, const Node& v,
                                                MigInstance& m) { m.compute_instance = r.count(v).value_or(0); }},
    NodeKey<MigInstance>{"memory_total",
                         [](NodeReader& r, const Node& v, MigInstance& m) { m.memory_total = r.size(v); }},
    NodeKey<MigInstance>{"name", [](NodeReader& r, const Node& v, MigInstance& m) { m.name = r.text(v); }},
    NodeKey<MigInstance>{"lease", ignored<MigInstance>},
};

constexpr std::array process_keys{
    NodeKey<GpuProcess>{"pid", [](NodeReader& r, const Node& v, GpuProcess& p) { p.pid = r.count(v).value_or(0); }},
    NodeKey<GpuProcess>{"user", [](NodeReader& r, const Node& v, GpuProcess& p) { p.user = r.text(v); }},
    NodeKey<GpuProcess>{"command", [](NodeReader& r, const Node& v, GpuProcess& p) { p.command = r.text(v); }},
    NodeKey<GpuProcess>{"memory", [](NodeReader& r, const Node& v, GpuProcess& p) { p.memory = r.size(v); }},
    NodeKey<GpuProcess>{"graphics",
                        [](NodeReader& r, const Node& v, GpuProcess& p) { p.graphics = r.boolean(v).value_or(false); }},
};

// The nested form that `muster gpus --json` writes.
constexpr std::array memory_keys{
    NodeKey<Gpu>{"total", [](NodeReader& r, const Node& v, Gpu& g) { g.facts.memory_total = r.size(v); }},
    NodeKey<Gpu>{"used", [](NodeReader& r, const Node& v, Gpu& g) { g.reading.memory_used = r.size(v); }},
    NodeKey<Gpu>{"reserved", [](NodeReader& r, const Node& v, Gpu& g) { g.reading.memory_reserved = r.size(v); }},
    NodeKey<Gpu>{"free", [](NodeReader& r, const Node& v, Gpu& g) { g.reading.memory_free = r.size(v); }},
};

void read_instances(NodeReader& reader, const Node& node, GpuEntry& entry) {
  entry.gpu.facts.mig_mode = true;
  int position = 0;
  for (const Node& item : reader.list(node)) {
    MigInstance instance;
    instance.gpu_instance = position++;
    reader.table<MigInstance>(item, mig_keys, instance);
    entry.gpu.facts.mig_instances.push_back(std::move(instance));
  }
}

void read_processes(NodeReader& reader, const Node& node, GpuEntry& entry) {
  for (const Node& item : reader.list(node)) {
    GpuProcess process;
    reader.table<GpuProcess>(item, process_keys, process);
    if (item.find("pid") == nullptr && item.kind == Node::Kind::table)
      reader.refuse(item.position, "a process without a pid", "write {pid: 4711, ...}");
    entry.gpu.processes.push_back(std::move(process));
  }
  std::ranges::sort(entry.gpu.processes, {}, &GpuProcess::pid);
}

void read_xids(NodeReader& reader, const Node& node, GpuEntry& entry) {
  for (const Node& item : reader.list(node))
    if (const auto code = reader.count(item, 1)) entry.gpu.reading.recent_xids.push_back(*code);
}

using Entry = GpuEntry;
using Reader = NodeReader;

constexpr std::array gpu_keys{
    NodeKey<Entry>{"index", [](Reader& r, const Node& v, Entry& e) { e.index = r.count(v, 0, 65535); }},
    NodeKey<Entry>{"uuid", [](Reader& r, const Node& v, Entry& e) { e.gpu.facts.uuid = read_uuid(r, v, "GPU-"); }},
    NodeKey<Entry>{"count", [](Reader& r, const Node& v, Entry& e) { e.count = r.count(v, 0, most_gpus); }},
    NodeKey<Entry>{"name", [](Reader& r, const Node& v, Entry& e) { e.gpu.facts.name = r.text(v); }},
    NodeKey<Entry>{"memory_total", [](Reader& r, const Node& v, Entry& e) { e.gpu.facts.memory_total = r.size(v); }},
    NodeKey<Entry>{"memory_used", [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.memory_used = r.size(v); }},
    NodeKey<Entry>{"memory_reserved",
                   [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.memory_reserved = r.size(v); }},
    NodeKey<Entry>{"memory_free", [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.memory_free = r.size(v); }},
    NodeKey<Entry>{"memory", [](Reader& r, const Node& v, Entry& e) { r.table<Gpu>(v, memory_keys, e.gpu); }},
    NodeKey<Entry>{"utilization", [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.utilization = r.percent(v); }},
    NodeKey<Entry>{"memory_utilization",
                   [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.memory_utilization = r.percent(v); }},
    NodeKey<Entry>{"temperature", [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.temperature = r.count(v); }},
    NodeKey<Entry>{"power", [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.power = r.quantity(v); }},
    NodeKey<Entry>{"power_limit",
                   [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.power_limit = r.quantity(v); }},
    NodeKey<Entry>{"clock_sm", [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.clock_sm = r.count(v); }},
    NodeKey<Entry>{"clock_memory", [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.clock_memory = r.count(v); }},
    NodeKey<Entry>{"ecc_corrected",
                   [](Reader& r, const Node& v, Entry& e) {
                     e.gpu.reading.ecc_corrected = r.integer(v, 0, std::numeric_limits<std::int64_t>::max());
                   }},
    NodeKey<Entry>{"ecc_uncorrected",
                   [](Reader& r, const Node& v, Entry& e) {
                     e.gpu.reading.ecc_uncorrected = r.integer(v, 0, std::numeric_limits<std::int64_t>::max());
                   }},
    NodeKey<Entry>{"row_remap_pending",
                   [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.row_remap_pending = r.boolean(v); }},
    NodeKey<Entry>{"row_remap_failed",
                   [](Reader& r, const Node& v, Entry& e) { e.gpu.reading.row_remap_failed = r.boolean(v); }},
    NodeKey<Entry>{"xids", read_xids},
    NodeKey<Entry>{"compute_capability",
                   [](Reader& r, const Node& v, Entry& e) { e.gpu.facts.compute_capability = read_capability(r, v); }},
    NodeKey<Entry>{"multiprocessor_count",
                   [](Reader& r, const Node& v, Entry& e) { e.gpu.facts.multiprocessor_count = r.count(v, 1); }},
    NodeKey<Entry>{"pci_bus_id",
                   [](Reader& r, const Node& v, Entry& e) { e.gpu.facts.pci_bus_id = read_pci_bus_id(r, v); }},
    NodeKey<Entry>{"numa_node",
                   [](Reader& r, const Node& v, Entry& e) { e.gpu.facts.numa_node = r.count(v, 0, 1023); }},
    NodeKey<Entry>{"cpu_affinity",
                   [](Reader& r, const Node& v, Entry& e) { e.gpu.facts.cpu_affinity = read_cpu_affinity(r, v); }},
    NodeKey<Entry>{"mig", read_instances},
    NodeKey<Entry>{"processes", read_processes},
    NodeKey<Entry>{"healthy", [](Reader& r, const Node& v, Entry& e) { e.healthy = r.boolean(v); }},
    NodeKey<Entry>{"unhealthy_because", [](Reader& r, const Node& v, Entry& e) { e.unhealthy_because = r.text(v); }},
    NodeKey<Entry>{"lost", [](Reader& r, const Node& v, Entry& e) { e.gpu.lost = r.boolean(v).value_or(false); }},
    NodeKey<Entry>{"visible_index", ignored<Entry>},
    NodeKey<Entry>{"lease", ignored<Entry>},
};

void read_between(NodeReader& reader, const Node& node, Link& link) {
  const auto items = reader.list(node);
  if (items.size() != 2) {
    if (node.kind == Node::Kind::list) reader.refuse_value(node, "two GPU indexes, as in [0, 1]");
    return;
  }
  const int a = reader.count(items[0]).value_or(0);
  const int b = reader.count(items[1]).value_or(0);
  link.a = GpuIndex{std::min(a, b)};
  link.b = GpuIndex{std::max(a, b)};
}

constexpr std::array link_keys{
    NodeKey<Link>{"between", read_between},
    NodeKey<Link>{"kind",
                  [](Reader& r, const Node& v, Link& l) { l.kind = read_link_kind(r, v).value_or(LinkKind::sys); }},
    NodeKey<Link>{"lanes", [](Reader& r, const Node& v, Link& l) { l.lanes = r.count(v, 0, 1024).value_or(0); }},
};

bool is_written(const Node* value) { return value != nullptr && value->kind != Node::Kind::null; }

// One of the two forms, and the total in it; a lost GPU may report none.
void check_memory_keys(NodeReader& reader, const Node& item, const GpuEntry& entry) {
  const Node* nested = item.find("memory");
  const Node* total = nested != nullptr ? nested->find("total") : item.find("memory_total");
  if (item.kind == Node::Kind::table && !is_written(total) && !entry.gpu.lost)
    reader.refuse(item.position, "a GPU without memory_total", "write {memory_total: 80GiB, ...}");
  for (const Node::Entry& flat : item.entries)
    if (nested != nullptr && flat.key.starts_with("memory_") && flat.key != "memory_utilization")
      reader.refuse(flat.position, flat.key + " beside memory", "write the one form or the other");
}

void read_gpus(NodeReader& reader, const Node& node, InventoryEntries& entries) {
  for (const Node& item : reader.list(node)) {
    GpuEntry& entry = entries.gpus.emplace_back();
    entry.position = item.position;
    reader.table<GpuEntry>(item, gpu_keys, entry);
    const Node* uuid = item.find("uuid");
    entry.uuid_not_known = uuid != nullptr && uuid->kind == Node::Kind::null;
    check_memory_keys(reader, item, entry);
  }
}

void read_links(NodeReader& reader, const Node& node, InventoryEntries& entries) {
  for (const Node& item : reader.list(node)) {
    LinkEntry entry;
    entry.position = item.position;
    reader.table<Link>(item, link_keys, entry.link);
    if (item.kind != Node::Kind::table) continue;
    if (item.find("between") == nullptr || item.find("kind") == nullptr)
      reader.refuse(item.position, "a link needs between and kind", "write {between: [0, 1], kind: nvlink}");
    else
      entries.links.push_back(entry);
  }
}

constexpr std::array inventory_keys{
    NodeKey<InventoryEntries>{"gpus", read_gpus},
    NodeKey<InventoryEntries>{"links", read_links},
    NodeKey<InventoryEntries>{"count",
                              [](Reader& r, const Node& v, InventoryEntries& e) {
                                e.count = r.count(v, 0, most_gpus);
                                e.count_position = v.position;
                              }},
    NodeKey<InventoryEntries>{"driver_version",
                              [](Reader& r, const Node& v, InventoryEntries& e) { e.driver_version = r.text(v); }},
    NodeKey<InventoryEntries>{"cuda_version",
                              [](Reader& r, const Node& v, InventoryEntries& e) { e.cuda_version = r.text(v); }},
    NodeKey<InventoryEntries>{"driver_state",
                              [](Reader& r, const Node& v, InventoryEntries& e) {
                                e.driver = read_driver_state(r, v).value_or(DriverState::ready);
                                e.driver_position = v.position;
                              }},
    NodeKey<InventoryEntries>{"mask", ignored<InventoryEntries>},
    NodeKey<InventoryEntries>{"source", ignored<InventoryEntries>},
};

}  // namespace

InventoryEntries read_entries(NodeReader& reader, const Node& root) {
  InventoryEntries entries;
  reader.table<InventoryEntries>(root, inventory_keys, entries);
  const Node* gpus = root.find("gpus");
  if (root.kind == Node::Kind::table && !is_written(gpus))
    reader.refuse(root.position, "no list \"gpus\"", "write gpus: [{memory_total: 80GiB}], or gpus: [] for none");
  return entries;
}

}  // namespace muster::gpu
