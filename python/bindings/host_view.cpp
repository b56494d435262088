#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "errors.hpp"
#include "host/host.hpp"

namespace muster::python {
namespace {

using host::HostView;

std::optional<lease::Holder> holder_of(const HostView& view, const gpu::VisibleDevice& device) {
  if (!device.uuid) return std::nullopt;
  const auto found = view.holders.find(device.uuid->text);
  return found == view.holders.end() ? std::nullopt : std::optional(found->second);
}

std::string mask_for(const HostView& view, const std::vector<int>& chosen) {
  std::vector<gpu::VisibleIndex> indices;
  for (const int position : chosen) indices.push_back(gpu::VisibleIndex{position});
  return value_or_raise(host::mask_for(view, indices, gpu::MaskForm::as_inherited));
}

}  // namespace

void bind_host_view(nanobind::module_& module) {
  nanobind::class_<HostView>(module, "HostView", "One look at the GPUs, the mask and the leases of this machine.")
      .def_ro("mask", &HostView::mask, "CUDA_VISIBLE_DEVICES; None: not set.")
      .def_ro("visible", &HostView::visible, "What the mask shows; the position is the id.")
      .def_prop_ro("gpus", [](const HostView& view) { return view.snapshot.gpus; })
      .def_prop_ro(
          "explanation", [](const HostView& view) { return view.snapshot.explanation; },
          "Why the machine shows no GPU; empty when it shows any.")
      .def("gpu_of", &HostView::gpu_of, nanobind::arg("device"), nanobind::rv_policy::reference_internal)
      .def("holder_of", &holder_of, nanobind::arg("device"), "Who leases the device, if anyone.")
      .def("mask_for", &mask_for, nanobind::arg("chosen"),
           "The mask that shows these ids of this view, in this order.");
}

}  // namespace muster::python
