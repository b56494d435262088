#include "cli/launch_rendezvous.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "launch/slurm.hpp"
#include "system/files.hpp"

namespace muster::cli {
namespace {

using launch::Environment;
using launch::LaunchRequest;
using launch::RendezvousPoint;

constexpr std::uint16_t static_port = 29500;
constexpr std::uint16_t dynamic_port = 29400;

Result<std::chrono::milliseconds> seconds_of(const std::string& key, const std::string& text) {
  const auto seconds = parse_number<double>(text);
  if (!seconds || !std::isfinite(*seconds) || *seconds < 0 || *seconds > 1e9)
    return bad_input(fmt::format("--rdzv-conf {}={}", key, text), "a number of seconds");
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

Result<bool> truth_of(const std::string& key, const std::string& text) {
  const std::string word = to_lower(text);
  for (const std::string_view yes : {"1", "true", "t", "yes", "y"})
    if (word == yes) return true;
  for (const std::string_view no : {"0", "false", "f", "no", "n"})
    if (word == no) return false;
  return bad_input(fmt::format("--rdzv-conf {}={}", key, text), "true or false");
}

Result<void> set_conf(LaunchRequest& request, const std::string& key, const std::string& value) {
  static const std::vector<std::string> known{"timeout",
                                              "join_timeout",
                                              "last_call_timeout",
                                              "close_timeout",
                                              "keep_alive_interval",
                                              "keep_alive_max_attempt",
                                              "read_timeout",
                                              "is_host",
                                              "store_type",
                                              "use_libuv"};
  launch::RendezvousTimes& times = request.times;
  if (key == "is_host") {
    const auto serves = truth_of(key, value);
    if (!serves) return serves.error();
    request.rendezvous_point.serves = *serves;
    return {};
  }
  if (key == "store_type" && value != "tcp")
    return bad_input(fmt::format("--rdzv-conf store_type={} is not served", value), "store_type=tcp, or leave it out");
  if (key == "keep_alive_max_attempt") {
    const auto attempts = parse_number<int>(value);
    if (!attempts || *attempts < 1)
      return bad_input(fmt::format("--rdzv-conf {}={}", key, value), "a number, 1 or more");
    times.silence = times.alive_interval * *attempts;
    return {};
  }
  if (std::ranges::find(known, key) == known.end()) {
    const auto near = nearest(key, known);
    return bad_input(fmt::format("--rdzv-conf has no setting {}", key), near ? *near : join(known, ", "));
  }
  if (key == "store_type" || key == "use_libuv" || key == "close_timeout" || key == "read_timeout") return {};
  const auto span = seconds_of(key, value);
  if (!span) return span.error();
  if (key == "timeout" || key == "join_timeout") times.join = *span;
  if (key == "last_call_timeout") times.last_call = *span;
  if (key == "keep_alive_interval") {
    times.alive_interval = std::max(*span, std::chrono::milliseconds(10));
    times.silence = times.alive_interval * 5;
  }
  return {};
}

std::string random_id() {
  const auto text = read_file("/proc/sys/kernel/random/uuid");
  return text ? std::string(trim(*text)) : fmt::format("run-{}", ::getpid());
}

// One host that the user did not have to describe.
void meet_alone(LaunchRequest& request, const LaunchOptions& options) {
  request.hosts = {1, 1};
  request.rendezvous_point.kind = RendezvousPoint::Kind::alone;
  request.run_id = options.rdzv_id && !options.standalone ? *options.rdzv_id : random_id();
}

Result<void> meet_by_endpoint(LaunchRequest& request, const LaunchOptions& options) {
  const std::string written = options.rdzv_endpoint.value_or("");
  if (written.empty() && request.hosts.maximum > 1)
    return bad_input("--rdzv-backend c10d with several hosts needs a place to meet", "--rdzv-endpoint HOST:29400");
  if (written.empty()) {
    meet_alone(request, options);
    return {};
  }
  const auto endpoint = parse_endpoint(written);
  if (!endpoint) return bad_input("--rdzv-endpoint: " + endpoint.error().what, endpoint.error().remedy);
  if (endpoint->port == 0 && request.hosts.maximum > 1)
    return bad_input(fmt::format("--rdzv-endpoint {}: several hosts cannot guess a free port", written),
                     "name the port");
  request.run_id = options.rdzv_id.value_or("none");
  if (endpoint->port == 0) {
    meet_alone(request, options);
    return {};
  }
  request.rendezvous_point.kind = RendezvousPoint::Kind::by_endpoint;
  request.rendezvous_point.endpoint = {endpoint->host, endpoint->port.value_or(dynamic_port)};
  return {};
}

Result<void> meet_by_rank(LaunchRequest& request, const LaunchOptions& options) {
  Endpoint endpoint{options.master_addr.value_or("127.0.0.1"), std::nullopt};
  if (options.master_port) endpoint.port = static_cast<std::uint16_t>(*options.master_port);
  if (options.rdzv_endpoint && !options.rdzv_endpoint->empty()) {
    const auto written = parse_endpoint(*options.rdzv_endpoint);
    if (!written) return bad_input("--rdzv-endpoint: " + written.error().what, written.error().remedy);
    if (!written->port)
      return bad_input(fmt::format("--rdzv-endpoint {} has no port", *options.rdzv_endpoint), "HOST:PORT");
    endpoint = *written;
  } else if (const auto bare = parse_endpoint(endpoint.host); bare && !bare->port) {
    endpoint.host = bare->host;  // an IPv6 address may be in brackets
  }
  request.rendezvous_point.endpoint = endpoint;
  request.hosts.minimum = request.hosts.maximum;
  if (request.hosts.maximum == 1) {
    const bool described = endpoint.port.has_value();
    request.run_id = options.rdzv_id.value_or(described ? "none" : random_id());
    request.rendezvous_point.kind = RendezvousPoint::Kind::alone;
    return {};
  }
  const int node_rank = options.node_rank.value_or(0);
  if (node_rank < 0 || node_rank >= request.hosts.maximum)
    return bad_input(fmt::format("--node-rank {} among {} hosts", node_rank, request.hosts.maximum),
                     fmt::format("0 to {}", request.hosts.maximum - 1));
  if (request.rendezvous_point.endpoint.port.value_or(static_port) == 0)
    return bad_input("--master-port 0: several hosts cannot guess a free port", "name the port");
  request.rendezvous_point.kind = RendezvousPoint::Kind::by_rank;
  request.rendezvous_point.endpoint.port = request.rendezvous_point.endpoint.port.value_or(static_port);
  request.rendezvous_point.node_rank = node_rank;
  request.run_id = options.rdzv_id.value_or("none");
  return {};
}

// ---- Slurm ----

bool describes_hosts(const LaunchOptions& options) {
  return options.nnodes || options.node_rank || options.master_addr || options.rdzv_endpoint || options.standalone;
}

Result<void> meet_in_slurm(job::LaunchJobRequest& job, const launch::SlurmTask& task, const LaunchOptions& options) {
  LaunchRequest& request = job.request;
  request.run_id = options.rdzv_id.value_or("slurm-" + task.job);
  request.hosts = {task.task_count, task.task_count};
  request.rendezvous_point.kind = RendezvousPoint::Kind::by_rank;
  request.rendezvous_point.node_rank = task.rank;
  const auto port =
      options.master_port ? static_cast<std::uint16_t>(*options.master_port) : launch::slurm_port(task.job);
  request.rendezvous_point.endpoint = {task.host_count == 1 ? "127.0.0.1" : task.first_host, port};
  if (task.task_count == task.host_count) return {};  // one launcher on each host: that host's agent
  if (job.ranks && *job.ranks != job::RanksRequest(1))
    return bad_input(fmt::format("srun started {} tasks on this host; each of them is one rank", task.local_task_count),
                     "srun --ntasks-per-node=1 to let muster start the ranks, or leave --nproc-per-node out");
  job.ranks = 1;
  request.place = {task.local_rank, task.local_task_count, task.host_index, task.host_count};
  return {};
}

// ---- the secret ----

Result<launch::SecretSource> secret_source(const LaunchRequest& request, const LaunchOptions& options) {
  using launch::SecretSource;
  if (options.insecure && options.rdzv_secret_file)
    return bad_input("--insecure and --rdzv-secret-file exclude each other", "give one of them");
  if (options.insecure) return SecretSource{SecretSource::Kind::insecure};
  if (request.rendezvous_point.kind == RendezvousPoint::Kind::alone) return SecretSource{};
  if (options.rdzv_secret_file) return SecretSource{SecretSource::Kind::file, {}, *options.rdzv_secret_file};
  return launch::usual_secret_source();
}

Result<void> choose_meeting(job::LaunchJobRequest& job, const LaunchOptions& options, const Environment& environment) {
  LaunchRequest& request = job.request;
  if (options.rdzv_backend == "static" && !describes_hosts(options)) {
    const auto task = launch::slurm_task(environment);
    if (!task) return task.error();
    if (*task && (*task)->task_count > 1) return meet_in_slurm(job, **task, options);
  }
  const auto hosts = parse_hosts(options.nnodes.value_or("1"));
  if (!hosts) return hosts.error();
  request.hosts = *hosts;
  if (options.standalone) {
    meet_alone(request, options);
    return {};
  }
  if (options.rdzv_backend == "c10d") return meet_by_endpoint(request, options);
  if (options.rdzv_backend == "static") return meet_by_rank(request, options);
  return bad_input(fmt::format("--rdzv-backend {} is not served", options.rdzv_backend),
                   "static (with --node-rank) or c10d (with --rdzv-endpoint); neither needs a server of its own");
}

}  // namespace

Result<launch::HostRange> parse_hosts(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  const auto minimum = parse_number<int>(parts.front()), maximum = parse_number<int>(parts.back());
  if (parts.size() > 2 || !minimum || !maximum)
    return bad_input(fmt::format("--nnodes {}", text), "a number, or MIN:MAX as in 1:4");
  if (*minimum < 1 || *minimum > *maximum)
    return bad_input(fmt::format("--nnodes {}: at least {} and at most {} hosts", text, *minimum, *maximum),
                     "MIN must be 1 or more and not above MAX");
  return launch::HostRange{*minimum, *maximum};
}

Result<void> set_times(LaunchRequest& request, const LaunchOptions& options) {
  if (options.rdzv_conf.empty()) return {};
  std::vector<std::string> settings = split(options.rdzv_conf, ',');
  // The interval first: the number of attempts counts in it.
  std::ranges::stable_partition(settings,
                                [](const std::string& text) { return trim(text).starts_with("keep_alive_interval"); });
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos)
      return bad_input(fmt::format("--rdzv-conf {}: \"{}\" has no value", options.rdzv_conf, setting),
                       "KEY=VALUE,KEY=VALUE");
    if (auto set = set_conf(request, std::string(trim(setting.substr(0, equals))),
                            std::string(trim(setting.substr(equals + 1))));
        !set)
      return set;
  }
  return {};
}

Result<void> set_meeting(job::LaunchJobRequest& job, const LaunchOptions& options, const Environment& environment) {
  job.request.signals.job_end = launch::slurm_job_end(environment);
  if (auto chosen = choose_meeting(job, options, environment); !chosen) return chosen;
  auto secret = secret_source(job.request, options);
  if (!secret) return secret.error();
  job.request.secret = std::move(*secret);
  return {};
}

}  // namespace muster::cli
