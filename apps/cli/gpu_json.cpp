#include "cli/gpu_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpu/health.hpp"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

// What is not known is null.
template <class Value>
Json known(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json known(const std::optional<ByteCount>& bytes) { return bytes ? Json(bytes->value) : Json(nullptr); }
Json known(const std::optional<gpu::GpuUuid>& uuid) { return uuid ? Json(uuid->text) : Json(nullptr); }

Json lease_of(const host::HostView& view, const std::optional<gpu::GpuUuid>& uuid) {
  if (!uuid) return nullptr;
  const auto found = view.holders.find(uuid->text);
  if (found == view.holders.end()) return nullptr;
  const lease::Holder& holder = found->second;
  return {{"pid", known(holder.pid)},
          {"user", known(holder.user)},
          {"command", known(holder.command)},
          {"since", known(holder.since)}};
}

Json processes_of(const gpu::Gpu& gpu) {
  Json processes = Json::array();
  for (const gpu::GpuProcess& process : gpu.processes)
    processes.push_back({{"pid", process.pid},
                         {"user", known(process.user)},
                         {"command", known(process.command)},
                         {"memory", known(process.memory)},
                         {"graphics", process.graphics}});
  return processes;
}

Json instances_of(const host::HostView& view, const gpu::Gpu& gpu) {
  Json instances = Json::array();
  for (const gpu::MigInstance& instance : gpu.facts.mig_instances)
    instances.push_back({{"uuid", instance.uuid.text},
                         {"gpu_instance", instance.gpu_instance},
                         {"compute_instance", instance.compute_instance},
                         {"memory_total", known(instance.memory_total)},
                         {"name", known(instance.name)},
                         {"lease", lease_of(view, instance.uuid)}});
  return instances;
}

Json gpu_object(const host::HostView& view, const gpu::Gpu& gpu) {
  const gpu::GpuFacts& facts = gpu.facts;
  const gpu::GpuReading& reading = gpu.reading;
  const auto visible = view.visible_index(facts.index);
  const auto sickness = gpu::sickness(gpu);
  Json json;
  json["index"] = gpu::number(facts.index);
  json["uuid"] = known(facts.uuid);
  json["name"] = known(facts.name);
  json["visible_index"] = visible ? Json(gpu::number(*visible)) : Json(nullptr);
  json["memory"] = {{"total", known(facts.memory_total)},
                    {"used", known(reading.memory_used)},
                    {"reserved", known(reading.memory_reserved)},
                    {"free", known(reading.memory_free)}};
  json["utilization"] = known(reading.utilization);
  json["memory_utilization"] = known(reading.memory_utilization);
  json["temperature"] = known(reading.temperature);
  json["power"] = known(reading.power);
  json["power_limit"] = known(reading.power_limit);
  json["clock_sm"] = known(reading.clock_sm);
  json["clock_memory"] = known(reading.clock_memory);
  json["compute_capability"] =
      facts.compute_capability
          ? Json(fmt::format("{}.{}", facts.compute_capability->major, facts.compute_capability->minor))
          : Json(nullptr);
  json["multiprocessor_count"] = known(facts.multiprocessor_count);
  json["pci_bus_id"] = known(facts.pci_bus_id);
  json["numa_node"] = known(facts.numa_node);
  json["cpu_affinity"] = known(facts.cpu_affinity);
  json["ecc_corrected"] = known(reading.ecc_corrected);
  json["ecc_uncorrected"] = known(reading.ecc_uncorrected);
  json["row_remap_pending"] = known(reading.row_remap_pending);
  json["row_remap_failed"] = known(reading.row_remap_failed);
  json["xids"] = reading.recent_xids;
  json["mig"] = facts.mig_mode ? instances_of(view, gpu) : Json(nullptr);
  json["lost"] = gpu.lost;
  json["healthy"] = !sickness.has_value();
  json["unhealthy_because"] = known(sickness);
  json["processes"] = processes_of(gpu);
  json["lease"] = lease_of(view, facts.uuid);
  return json;
}

std::string_view word_of(gpu::LinkKind kind) {
  return std::ranges::find(gpu::link_words, kind, &gpu::LinkWord::kind)->text;
}

std::string_view word_of(gpu::DriverState state) {
  return std::ranges::find(gpu::driver_words, state, &gpu::DriverWord::state)->text;
}

}  // namespace

std::string gpu_json(const host::HostView& view) {
  Json json;
  json["gpus"] = Json::array();
  for (const gpu::Gpu& gpu : view.snapshot.gpus) json["gpus"].push_back(gpu_object(view, gpu));
  Json visible = Json::array();
  for (const gpu::VisibleDevice& device : view.visible) visible.push_back(known(device.uuid));
  json["mask"] = {{"variable", "CUDA_VISIBLE_DEVICES"}, {"value", known(view.mask)}, {"visible", std::move(visible)}};
  json["links"] = Json::array();
  for (const gpu::Link& link : view.snapshot.links) {
    Json entry = {{"between", {gpu::number(link.a), gpu::number(link.b)}}, {"kind", word_of(link.kind)}};
    if (link.kind == gpu::LinkKind::nvlink) entry["lanes"] = link.lanes;
    json["links"].push_back(std::move(entry));
  }
  json["driver_version"] = known(view.snapshot.driver_version);
  json["cuda_version"] = known(view.snapshot.cuda_version);
  json["driver_state"] = word_of(view.snapshot.driver);
  json["source"] = view.snapshot.source;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace muster::cli
