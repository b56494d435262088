#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "lease/lease.hpp"

namespace muster::python {

void bind_holder(nanobind::module_& module) {
  nanobind::class_<lease::Holder>(module, "Holder", "Who leases a GPU, as far as it is known.")
      .def_ro("pid", &lease::Holder::pid)
      .def_ro("user", &lease::Holder::user)
      .def_ro("command", &lease::Holder::command)
      .def_ro("since", &lease::Holder::since, "Seconds since 1970.")
      .def("__str__", [](const lease::Holder& holder) { return lease::describe(holder); });
}

}  // namespace muster::python
