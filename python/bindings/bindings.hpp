// One function per bound type; module.cpp lists them.
#pragma once

#include <nanobind/nanobind.h>

namespace muster::python {

void bind_errors(nanobind::module_& module);
void bind_units(nanobind::module_& module);
void bind_holder(nanobind::module_& module);
void bind_gpu(nanobind::module_& module);
void bind_visible_device(nanobind::module_& module);
void bind_host_view(nanobind::module_& module);
void bind_cuda_view(nanobind::module_& module);
void bind_selection_request(nanobind::module_& module);
void bind_grant(nanobind::module_& module);
void bind_host(nanobind::module_& module);
void bind_plan(nanobind::module_& module);
void bind_device_map(nanobind::module_& module);

}  // namespace muster::python
