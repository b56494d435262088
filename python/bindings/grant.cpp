#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "host/host.hpp"

namespace muster::python {

void bind_grant(nanobind::module_& module) {
  using host::Grant;
  nanobind::class_<Grant>(module, "Grant", "GPUs that are this process's to use, until released.")
      .def_ro("devices", &Grant::devices, "In the order of use.")
      .def_ro("mask", &Grant::mask, "CUDA_VISIBLE_DEVICES for a child that may use them all.")
      .def_ro("environment", &Grant::environment, "Everything a child needs.")
      .def(
          "descriptors",
          [](const Grant& grant) { return grant.lease ? grant.lease->descriptors() : std::vector<int>{}; },
          "The locked descriptors a child must inherit to keep the lease.")
      .def(
          "release", [](Grant& grant) { grant.lease.reset(); }, "Gives the GPUs back; a second call does nothing.");
}

}  // namespace muster::python
