#include "host/host.hpp"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "bindings.hpp"
#include "errors.hpp"
#include "interruptible.hpp"

namespace muster::python {
namespace {

using host::Host;
using OnWaiting = std::function<void(const std::string&)>;

host::HostView look(Host& host, bool everything) {
  return value_or_raise(host.look(everything ? gpu::Detail::everything : gpu::Detail::memory));
}

std::vector<int> pick(Host& host, const gpu::SelectionRequest& request) {
  std::vector<int> chosen;
  for (const gpu::VisibleIndex index : value_or_raise(host::pick(value_or_raise(host.look()), request))) chosen.push_back(gpu::number(index));
  return chosen;
}

host::Grant hold(const Host& host, const gpu::SelectionRequest& request, const std::string& command, bool share,
                    std::optional<std::int64_t> wait, const OnWaiting& on_waiting) {
  host::LeaseRequest lease_request;
  lease_request.command = command;
  lease_request.share = share;
  if (wait) lease_request.wait = std::chrono::milliseconds(*wait);
  return value_or_raise(hold_interruptibly(host.sources(), request, std::move(lease_request), on_waiting));
}

}  // namespace

void bind_host(nanobind::module_& module) {
  using nanobind::arg;
  using Released = nanobind::call_guard<nanobind::gil_scoped_release>;
  nanobind::class_<Host>(module, "Host", "This machine's GPUs as this process may use them.")
      .def(
          "__init__", [](Host* place) { new (place) Host(host::sources_from_environment()); },
          "Reads the environment as it is now.")
      .def("look", &look, arg("everything") = true, Released(),
           "everything=False: identities and memory alone, quicker.")
      .def("pick", &pick, arg("request"), Released(), "Chooses visible ids without taking them.")
      .def("hold", &hold, arg("request"), arg("command"), nanobind::kw_only(), arg("share") = false,
           arg("wait") = nanobind::none(), arg("on_waiting") = OnWaiting{},
           "Chooses and leases as one step. wait: at most that many milliseconds; None: now or not at all.");
}

}  // namespace muster::python
