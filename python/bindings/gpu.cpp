#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "gpu/health.hpp"
#include "gpu/snapshot.hpp"

namespace muster::python {
namespace {

std::optional<std::int64_t> bytes(const std::optional<ByteCount>& count) {
  return count ? std::optional(count->value) : std::nullopt;
}

std::optional<std::string> compute_capability(const gpu::Gpu& gpu) {
  const auto& capability = gpu.facts.compute_capability;
  return capability ? std::optional(fmt::format("{}.{}", capability->major, capability->minor)) : std::nullopt;
}

void bind_mig_instance(nanobind::module_& module) {
  using gpu::MigInstance;
  nanobind::class_<MigInstance>(module, "MigInstance", "A slice of a GPU in MIG mode.")
      .def_prop_ro("uuid", [](const MigInstance& instance) { return instance.uuid.text; })
      .def_prop_ro("memory_total", [](const MigInstance& instance) { return bytes(instance.memory_total); })
      .def_ro("name", &MigInstance::name);
}

}  // namespace

void bind_gpu(nanobind::module_& module) {
  using gpu::Gpu;
  bind_mig_instance(module);
  nanobind::class_<Gpu>(module, "Gpu", "One GPU of this machine at one moment. Memory in bytes; None: not known.")
      .def_prop_ro("index", [](const Gpu& gpu) { return gpu::number(gpu.facts.index); })
      .def_prop_ro("uuid",
                   [](const Gpu& gpu) { return gpu.facts.uuid ? std::optional(gpu.facts.uuid->text) : std::nullopt; })
      .def_prop_ro("name", [](const Gpu& gpu) { return gpu.facts.name; })
      .def_prop_ro("compute_capability", &compute_capability)
      .def_prop_ro("multiprocessor_count", [](const Gpu& gpu) { return gpu.facts.multiprocessor_count; })
      .def_prop_ro("memory_total", [](const Gpu& gpu) { return bytes(gpu.facts.memory_total); })
      .def_prop_ro("memory_used", [](const Gpu& gpu) { return bytes(gpu.reading.memory_used); })
      .def_prop_ro("memory_free", [](const Gpu& gpu) { return bytes(gpu.reading.memory_free); })
      .def_prop_ro("utilization", [](const Gpu& gpu) { return gpu.reading.utilization; })
      .def_prop_ro("mig_instances", [](const Gpu& gpu) { return gpu.facts.mig_instances; })
      .def_prop_ro("sickness", [](const Gpu& gpu) { return gpu::sickness(gpu); })
      .def_ro("lost", &Gpu::lost);
}

}  // namespace muster::python
