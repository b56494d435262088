// Long waits that leave the interpreter free: other threads run, and Ctrl-C ends the wait.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "host/host.hpp"

namespace muster::python {

// Host::hold, called with the GIL held. on_waiting is called in this thread. A signal handler that raises ends the wait
// with its exception and gives up the place in the line.
Result<host::Grant> hold_interruptibly(const host::HostSources& sources, gpu::SelectionRequest request,
                                          host::LeaseRequest lease_request,
                                          const std::function<void(const std::string&)>& on_waiting);

}  // namespace muster::python
