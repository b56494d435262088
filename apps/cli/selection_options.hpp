// The options by which any command chooses which GPUs it wants and how it takes them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/command.hpp"
#include "gpu/selection.hpp"
#include "host/host.hpp"

namespace CLI {
class App;
}

namespace muster::cli {

struct SelectionOptions {
  std::optional<int> count;
  std::optional<int> up_to;
  std::vector<std::string> ids;
  std::optional<std::string> free;
  std::optional<int> maximum_utilization;
  std::optional<std::string> model_size;
  double margin = 1.5;
  bool least_loaded = false;
  bool unhealthy = false;
  bool uuid = false;
};

std::shared_ptr<SelectionOptions> add_selection_options(CLI::App& command);

// One GPU if nothing says how many.
Result<gpu::SelectionRequest> selection_request(const SelectionOptions& options);

struct LeaseOptions {
  bool share = false;
  std::shared_ptr<SpanOption> wait;  // without a span: as long as it takes
  std::string reclaim = "30s";
};

std::shared_ptr<LeaseOptions> add_lease_options(CLI::App& command);

Result<host::LeaseRequest> read_lease_request(const LeaseOptions& options, std::string command);

}  // namespace muster::cli
