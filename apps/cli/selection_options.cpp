#include "cli/selection_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"

namespace muster::cli {

namespace {

void set_group(CLI::App& command, const std::string& group, std::initializer_list<const char*> names) {
  for (const char* name : names) command.get_option(name)->group(group);
}

}  // namespace

std::shared_ptr<SelectionOptions> add_selection_options(CLI::App& command) {
  auto options = std::make_shared<SelectionOptions>();
  auto* count = command.add_option("-n,--num-gpus", options->count, "how many GPUs: exactly that many, or a refusal");
  auto* up_to = command.add_option("--up-to", options->up_to, "at most that many, at least one");
  up_to->excludes(count);
  command
      .add_option("--gpu-ids", options->ids,
                  "these GPUs, by number within CUDA_VISIBLE_DEVICES or by UUID; the order is kept")
      ->expected(1, -1);
  command.add_option("--free", options->free, "only GPUs with this much free memory, as in 20GiB; busy ones, too");
  command.add_option("--max-utilization", options->maximum_utilization, "only GPUs with at most this utilisation, in percent; busy ones, too");
  command.add_option("--model-size", options->model_size, "the smallest set of GPUs that holds a model of this size");
  command.add_option("--margin", options->margin, "with --model-size: room for what the work adds")
      ->capture_default_str();
  command.add_flag("--least-loaded", options->least_loaded, "the emptiest GPUs first");
  command.add_flag("--unhealthy", options->unhealthy, "also take GPUs that report errors");
  command.add_flag("--uuid", options->uuid, "write the mask as UUIDs instead of numbers");
  set_group(command, "Which GPUs",
            {"--num-gpus", "--up-to", "--gpu-ids", "--free", "--max-utilization", "--model-size", "--margin",
             "--least-loaded", "--unhealthy", "--uuid"});
  return options;
}

Result<gpu::SelectionRequest> selection_request(const SelectionOptions& options) {
  gpu::SelectionRequest request;
  for (const std::string& word : options.ids)
    for (const std::string& id : split(word, ',')) request.ids.emplace_back(trim(id));
  request.count = options.up_to ? options.up_to : options.count;
  request.up_to = options.up_to.has_value();
  request.offered.up_to = true;
  if (!request.count && request.ids.empty() && !options.model_size) request.count = 1;
  if (options.free) {
    auto free = parse_byte_count(*options.free);
    if (!free) return Error{free.error().kind, "--free: " + free.error().what, free.error().remedy};
    request.minimum_free = *free;
  }
  if (options.model_size) {
    auto size = parse_byte_count(*options.model_size);
    if (!size) return Error{size.error().kind, "--model-size: " + size.error().what, size.error().remedy};
    request.model = gpu::ModelNeed{*size, options.margin};
  }
  request.maximum_utilization = options.maximum_utilization;
  request.least_loaded = options.least_loaded;
  request.allow_unhealthy = options.unhealthy;
  return request;
}

std::shared_ptr<LeaseOptions> add_lease_options(CLI::App& command) {
  auto options = std::make_shared<LeaseOptions>();
  auto* share = command.add_flag("--share", options->share, "use the GPUs even if others have leased them or compute on them; leases nothing");
  options->wait = add_span_option(
      command, "--wait", "wait for GPUs, first come first served; with a span, at most that long, as in --wait=10m");
  command.get_option("--wait")->excludes(share);
  command
      .add_option("--reclaim", options->reclaim,
                  "how long to wait for the last holder's memory to come back; 0s: not at all")
      ->capture_default_str();
  set_group(command, "Holding GPUs", {"--share", "--wait", "--reclaim"});
  return options;
}

Result<host::LeaseRequest> read_lease_request(const LeaseOptions& options, std::string command) {
  host::LeaseRequest lease_request;
  lease_request.command = std::move(command);
  lease_request.share = options.share;
  auto wait = options.wait->span_or(std::chrono::hours(24 * 365));
  if (!wait) return wait.error();
  lease_request.wait = *wait;
  auto reclaim = parse_duration(options.reclaim);
  if (!reclaim) return Error{reclaim.error().kind, "--reclaim: " + reclaim.error().what, reclaim.error().remedy};
  lease_request.reclaim = *reclaim;
  lease_request.on_waiting = [](const std::string& reason) { note("waiting: " + reason); };
  return lease_request;
}

}  // namespace muster::cli
