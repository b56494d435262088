#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "bindings.hpp"
#include "gpu/selection.hpp"

namespace muster::python {
namespace {

using gpu::SelectionRequest;

void construct(SelectionRequest* place, const std::vector<std::string>& ids, std::optional<int> count,
               std::optional<std::int64_t> minimum_free, std::optional<std::int64_t> model_size, double margin,
               bool allow_leased, bool allow_unhealthy) {
  SelectionRequest request;
  request.ids = gpu::gpu_names(ids);
  request.count = count;
  if (minimum_free) request.minimum_free = ByteCount{*minimum_free};
  if (model_size) request.model = gpu::ModelNeed{ByteCount{*model_size}, margin};
  request.allow_leased = request.allow_busy = allow_leased;  // whoever has them
  request.allow_unhealthy = allow_unhealthy;
  new (place) SelectionRequest(std::move(request));
}

}  // namespace

void bind_selection_request(nanobind::module_& module) {
  using nanobind::arg;
  nanobind::class_<SelectionRequest>(module, "SelectionRequest", "Which GPUs are asked for. Sizes in bytes.")
      .def("__init__", &construct, nanobind::kw_only(), arg("ids") = std::vector<std::string>{},
           arg("count") = nanobind::none(), arg("minimum_free") = nanobind::none(),
           arg("model_size") = nanobind::none(), arg("margin") = 1.5, arg("allow_leased") = false,
           arg("allow_unhealthy") = false);
}

}  // namespace muster::python
