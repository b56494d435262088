// Serves environments until it is told to end.
#pragma once

#include "base/result.hpp"
#include "wire/serve_task.hpp"

namespace muster::environment_server {

// Where it is and what it has is said on standard output, once clients can come. Ends by SIGINT or SIGTERM, which must
// be blocked in all threads of this process: their number. Refused: a port that is taken.
Result<int> serve(const wire::ServeTask& task);

}  // namespace muster::environment_server
