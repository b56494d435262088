#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "gpu/mask.hpp"

namespace muster::python {

void bind_visible_device(nanobind::module_& module) {
  using gpu::VisibleDevice;
  nanobind::class_<VisibleDevice>(module, "VisibleDevice",
                                  "One device behind a mask: a GPU or one of its MIG instances.")
      .def_prop_ro(
          "index", [](const VisibleDevice& device) { return gpu::number(device.gpu); }, "The physical GPU.")
      .def_ro("mig", &VisibleDevice::mig, "Which of the GPU's instances; None: the whole GPU.")
      .def_prop_ro(
          "uuid",
          [](const VisibleDevice& device) { return device.uuid ? std::optional(device.uuid->text) : std::nullopt; })
      .def_ro("entry", &VisibleDevice::entry, "How a mask names it.");
}

}  // namespace muster::python
