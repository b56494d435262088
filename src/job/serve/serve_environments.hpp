// muster serve-environments: which environments, with which rows, for whom. The serving itself is another program's,
// which alone speaks gRPC.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "planning/configuration.hpp"
#include "wire/serve_task.hpp"

namespace muster::job {

struct ServeRequest {
  planning::GivenConfiguration configuration;
  std::vector<std::string> environments;  // by name
  std::vector<std::string> data;          // NAME=FILE; a file alone where there is one environment
  std::string host = "127.0.0.1";         // a name or an address
  std::int64_t port = 50051;              // 0: a free one
  std::optional<std::string> token_file;  // absent: MUSTER_ENVIRONMENT_TOKEN
  std::chrono::milliseconds session_timeout = std::chrono::minutes(10);
  std::int64_t most_sessions = 4096;
  ByteCount most_message = mebibytes(16);
  bool json = false;
};

// Everything that can be refused is refused here: environments and settings, rows that an environment does not take, an
// address that others reach without a token, a build without gRPC.
Result<wire::ServeTask> plan_serving(const ServeRequest& request);

// "math (3 rows), code at 127.0.0.1:50051, …": what would be served, and to whom.
std::string serving_text(const wire::ServeTask& task);

// This process becomes the server. Returns only an Error.
Error serve(const wire::ServeTask& task);

}  // namespace muster::job
