#include "cli/launch_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/duration.hpp"
#include "base/text.hpp"

namespace muster::cli {
namespace {

using launch::Contract;
using launch::LaunchRequest;
using launch::RendezvousPoint;
using job::LaunchPlan;

// What is known about a rank before the hosts have met: with places by rank and equal hosts, everything.
struct RankLine {
  std::optional<int> rank;
  int local_rank = 0;  // the value of LOCAL_RANK
  std::optional<job::RankDevice> gpu;
  std::optional<std::string> mask;  // absent: as inherited
  std::optional<int> device;        // its own GPU as the rank counts; absent: no GPU
};

std::optional<int> first_rank(const LaunchRequest& request) {
  if (request.rendezvous_point.kind == RendezvousPoint::Kind::alone) return 0;
  if (!request.rendezvous_point.node_rank) return std::nullopt;
  return *request.rendezvous_point.node_rank * request.local_ranks;
}

std::vector<RankLine> rank_lines(const LaunchPlan& plan) {
  const LaunchRequest& request = plan.request;
  const bool at_zero = request.contract != Contract::collective;
  const bool zero_rank =
      request.contract == Contract::own_gpu_first || request.contract == Contract::virtual_local_rank;
  const int offset = request.place ? request.place->first_local_rank : 0;
  std::vector<RankLine> lines;
  for (int position = 0; position < request.local_ranks; ++position) {
    const auto index = static_cast<std::size_t>(position);
    RankLine line;
    if (const auto first = first_rank(request)) line.rank = *first + position;
    line.local_rank = zero_rank ? 0 : offset + position;
    line.gpu = plan.devices[index];
    line.mask = plan.resources.masks[index];
    if (line.gpu) line.device = at_zero ? 0 : offset + position;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string hosts_text(const launch::HostRange& hosts) {
  if (hosts.minimum == hosts.maximum) return std::to_string(hosts.maximum);
  return fmt::format("{} to {}", hosts.minimum, hosts.maximum);
}

std::optional<int> world_size(const LaunchRequest& request) {
  if (request.hosts.minimum != request.hosts.maximum) return std::nullopt;
  return request.hosts.maximum * request.local_ranks;
}

std::string meeting_text(const LaunchRequest& request) {
  const RendezvousPoint& rendezvous_point = request.rendezvous_point;
  switch (rendezvous_point.kind) {
    case RendezvousPoint::Kind::alone:
      return rendezvous_point.endpoint.port.value_or(0) != 0 ? to_string(rendezvous_point.endpoint)
                                                    : fmt::format("{}, a free port", rendezvous_point.endpoint.host);
    case RendezvousPoint::Kind::by_rank:
      return fmt::format("{}, served by host 0; this is host {}", to_string(rendezvous_point.endpoint), *rendezvous_point.node_rank);
    case RendezvousPoint::Kind::by_endpoint:
      return fmt::format("{}, served by the host with that address", to_string(rendezvous_point.endpoint));
  }
  return "";
}

std::string log_text(const launch::LogOptions& logs) {
  if (!logs.folder) return "a temporary folder, kept if the run fails";
  return logs.folder->string() == "/dev/null" ? "none" : logs.folder->string();
}

std::string gpu_text(const RankLine& line) {
  if (!line.gpu) return "no GPU";
  return fmt::format("GPU {} ({})", gpu::number(line.gpu->index), line.gpu->uuid);
}

std::string rank_text(const RankLine& line) {
  std::string text = fmt::format("  rank {:<4} LOCAL_RANK={:<3} {}", line.rank ? std::to_string(*line.rank) : "?",
                                 line.local_rank, gpu_text(line));
  if (line.device) text += fmt::format(" as cuda:{}", *line.device);
  if (line.mask) text += fmt::format("  CUDA_VISIBLE_DEVICES={}", *line.mask);
  return text + "\n";
}

std::string secret_text(const launch::SecretSource& secret) {
  using Kind = launch::SecretSource::Kind;
  switch (secret.kind) {
    case Kind::own:
      return "";
    case Kind::text:
      return "of MUSTER_RDZV_SECRET";
    case Kind::file:
      return secret.file.string();
    case Kind::insecure:
      return "none: every user and host that reaches the port can use the store";
  }
  return "";
}

std::string_view policy_text(const LaunchRequest& request) {
  return request.independent ? "independent: a rank that fails does not end the others"
                             : "collective: a rank that fails ends the round";
}

}  // namespace

std::string launch_plan_text(const LaunchPlan& plan) {
  const LaunchRequest& request = plan.request;
  const auto total = world_size(request);
  std::string text;
  const auto line = [&](std::string_view name, std::string_view value) {
    text += fmt::format("{:<10} {}\n", name, value);
  };
  line("command", join(request.command, " "));
  line("hosts", hosts_text(request.hosts));
  line("ranks", fmt::format("{} on this host, {} in all", request.local_ranks,
                            total ? std::to_string(*total) : "as many as come"));
  line("meeting", meeting_text(request));
  if (const std::string secret = secret_text(request.secret); !secret.empty()) line("secret", secret);
  line("contract", fmt::format("{}: {}", to_word(request.contract), describe(request.contract)));
  line("GPUs", plan.picked ? "picked, leased and masked" : "as they are visible; leased, the mask is not changed");
  line("policy", policy_text(request));
  line("restarts", fmt::format("at most {}", request.maximum_restarts));
  line("signals", fmt::format("{} end the run, with {} of grace", request.signals.ending_as_written,
                              to_string(request.signals.grace)));
  line("logs", log_text(request.logs));
  if (plan.resources.threads) line("threads", fmt::format("OMP_NUM_THREADS={}", *plan.resources.threads));
  for (const RankLine& rank : rank_lines(plan)) text += rank_text(rank);
  return text;
}

std::string launch_plan_json(const LaunchPlan& plan) {
  using Json = nlohmann::ordered_json;
  const auto maybe = [](const auto& value) { return value ? Json(*value) : Json(); };
  const LaunchRequest& request = plan.request;
  Json json;
  json["command"] = request.command;
  json["hosts"] = {{"minimum", request.hosts.minimum}, {"maximum", request.hosts.maximum}};
  json["local_world_size"] = request.place ? request.place->local_world_size : request.local_ranks;
  json["world_size"] = maybe(world_size(request));
  json["node_rank"] = maybe(request.rendezvous_point.node_rank);
  json["master_addr"] = request.rendezvous_point.endpoint.host;
  json["master_port"] = request.rendezvous_point.endpoint.port.value_or(0) == 0 ? Json() : Json(*request.rendezvous_point.endpoint.port);
  json["run_id"] = request.run_id;
  json["contract"] = to_word(request.contract);
  json["policy"] = request.independent ? "independent" : "collective";
  json["max_restarts"] = request.maximum_restarts;
  json["picked"] = plan.picked;
  json["threads"] = maybe(plan.resources.threads);
  json["ranks"] = Json::array();
  for (const RankLine& line : rank_lines(plan)) {
    Json rank{{"rank", maybe(line.rank)},
              {"local_rank", line.local_rank},
              {"mask", maybe(line.mask)},
              {"device", maybe(line.device)}};
    rank["gpu"] = line.gpu ? Json{{"index", gpu::number(line.gpu->index)},
                                  {"visible_index", gpu::number(line.gpu->visible)},
                                  {"uuid", line.gpu->uuid}}
                           : Json();
    json["ranks"].push_back(std::move(rank));
  }
  return json.dump(2);
}

}  // namespace muster::cli
