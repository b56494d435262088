#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "errors.hpp"
#include "host/host.hpp"

namespace muster::python {
namespace {

using MaskText = std::optional<std::string>;

gpu::CudaView read_as_cuda(const MaskText& text, const host::HostView& view) {
  return gpu::read_as_cuda(text, view.snapshot.gpus);
}

std::vector<gpu::VisibleDevice> read_mask(const MaskText& text, const host::HostView& view) {
  return value_or_raise(gpu::read_mask(text, view.snapshot.gpus));
}

}  // namespace

void bind_cuda_view(nanobind::module_& module) {
  nanobind::class_<gpu::CudaView>(module, "CudaView", "What CUDA itself makes of a mask.")
      .def_ro("devices", &gpu::CudaView::devices)
      .def_ro("cut", &gpu::CudaView::cut, "Why CUDA drops part of the list; None when all of it counts.");
  module.def("read_as_cuda", &read_as_cuda, nanobind::arg("text").none(), nanobind::arg("view"),
             "CUDA's reading of a mask over the GPUs of a view; None: the variable is not set.");
  module.def("read_mask", &read_mask, nanobind::arg("text").none(), nanobind::arg("view"),
             "The devices behind a mask; ValueError where CUDA would drop part of it.");
}

}  // namespace muster::python
