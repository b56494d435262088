#include "bindings.hpp"

NB_MODULE(_native, module) {
  using namespace muster::python;
  module.doc() = "The control plane of muster. Use muster and muster.distributed; this module may change.";
  module.attr("__version__") = MUSTER_VERSION;
  bind_errors(module);
  bind_units(module);
  bind_holder(module);
  bind_gpu(module);
  bind_visible_device(module);
  bind_host_view(module);
  bind_cuda_view(module);
  bind_selection_request(module);
  bind_grant(module);
  bind_host(module);
  bind_plan(module);
  bind_device_map(module);
}
