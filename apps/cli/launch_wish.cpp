#include "cli/launch_wish.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/files.hpp"
#include "base/text.hpp"
#include "launch/signal_name.hpp"
#include "launch/slurm.hpp"

namespace muster::cli {
namespace {

using launch::Environment;
using launch::LaunchRequest;
using launch::Meeting;

constexpr std::uint16_t static_port = 29500;
constexpr std::uint16_t dynamic_port = 29400;

Error bad(std::string what, std::string remedy) { return {Error::Kind::bad_input, std::move(what), std::move(remedy)}; }

// ---- the program ----

std::optional<std::string> variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
}

bool is_in_path(const Environment& environment, const std::string& program) {
  for (const std::string& folder : split(variable(environment, "PATH").value_or("/usr/bin:/bin"), ':'))
    if (::access((std::filesystem::path(folder.empty() ? "." : folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

std::string interpreter(const Environment& environment) {
  if (const auto named = variable(environment, "PYTHON_EXEC")) return *named;
  return is_in_path(environment, "python") ? "python" : "python3";
}

// What torchrun's --run-path does: the script in an interpreter whose errors are recorded.
constexpr std::string_view recorded_script =
    "import runpy, sys\n"
    "from torch.distributed.elastic.multiprocessing.errors import record\n"
    "sys.argv = sys.argv[1:]\n"
    "record(runpy.run_path)(sys.argv[0], run_name='__main__')\n";

Result<void> set_program(LaunchRequest& request, const LaunchOptions& options, const Tail& program,
                         const Environment& environment) {
  if (program.words.empty())
    return bad("nothing to launch", "muster launch train.py --lr 1e-4, or muster launch -- ./program");
  request.entry = program.words.front();
  if (program.separated || (options.no_python && !options.run_path)) {
    if (options.module)
      return bad("--module means a Python module, --no-python and -- a program", "leave one of them out");
    request.command = program.words;
    return {};
  }
  request.command = {interpreter(environment), "-u"};
  if (options.run_path) {
    request.command.insert(request.command.end(), {"-c", std::string(recorded_script)});
  } else if (options.module) {
    request.command.emplace_back("-m");
  }
  request.command.insert(request.command.end(), program.words.begin(), program.words.end());
  return {};
}

// ---- hosts ----

Result<launch::HostRange> parse_hosts(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  const auto minimum = parse_number<int>(parts.front()), maximum = parse_number<int>(parts.back());
  if (parts.size() > 2 || !minimum || !maximum)
    return bad(fmt::format("--nnodes {}", text), "a number, or MIN:MAX as in 1:4");
  if (*minimum < 1 || *minimum > *maximum)
    return bad(fmt::format("--nnodes {}: at least {} and at most {} hosts", text, *minimum, *maximum),
               "MIN must be 1 or more and not above MAX");
  return launch::HostRange{*minimum, *maximum};
}

Result<std::chrono::milliseconds> seconds_of(const std::string& key, const std::string& text) {
  const auto seconds = parse_number<double>(text);
  if (!seconds || !std::isfinite(*seconds) || *seconds < 0 || *seconds > 1e9)
    return bad(fmt::format("--rdzv-conf {}={}", key, text), "a number of seconds");
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

Result<bool> truth_of(const std::string& key, const std::string& text) {
  const std::string word = to_lower(text);
  for (const std::string_view yes : {"1", "true", "t", "yes", "y"})
    if (word == yes) return true;
  for (const std::string_view no : {"0", "false", "f", "no", "n"})
    if (word == no) return false;
  return bad(fmt::format("--rdzv-conf {}={}", key, text), "true or false");
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
  launch::MeetingTimes& times = request.times;
  if (key == "is_host") {
    const auto serves = truth_of(key, value);
    if (!serves) return serves.error();
    request.meeting.serves = *serves;
    return {};
  }
  if (key == "store_type" && value != "tcp")
    return bad(fmt::format("--rdzv-conf store_type={} is not served", value), "store_type=tcp, or leave it out");
  if (key == "keep_alive_max_attempt") {
    const auto attempts = parse_number<int>(value);
    if (!attempts || *attempts < 1) return bad(fmt::format("--rdzv-conf {}={}", key, value), "a number, 1 or more");
    times.silence = times.alive_interval * *attempts;
    return {};
  }
  if (std::ranges::find(known, key) == known.end()) {
    const auto near = nearest(key, known);
    return bad(fmt::format("--rdzv-conf knows no {}", key), near ? *near : join(known, ", "));
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

Result<void> set_times(LaunchRequest& request, const LaunchOptions& options) {
  if (options.rdzv_conf.empty()) return {};
  std::vector<std::string> settings = split(options.rdzv_conf, ',');
  // The interval first: the number of attempts counts in it.
  std::ranges::stable_partition(settings,
                                [](const std::string& text) { return trim(text).starts_with("keep_alive_interval"); });
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos)
      return bad(fmt::format("--rdzv-conf {}: \"{}\" has no value", options.rdzv_conf, setting), "KEY=VALUE,KEY=VALUE");
    if (auto set = set_conf(request, std::string(trim(setting.substr(0, equals))),
                            std::string(trim(setting.substr(equals + 1))));
        !set)
      return set;
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
  request.meeting.kind = Meeting::Kind::alone;
  request.run_id = options.rdzv_id && !options.standalone ? *options.rdzv_id : random_id();
}

Result<void> meet_by_endpoint(LaunchRequest& request, const LaunchOptions& options) {
  const std::string written = options.rdzv_endpoint.value_or("");
  if (written.empty() && request.hosts.maximum > 1)
    return bad("--rdzv-backend c10d with several hosts needs a place to meet", "--rdzv-endpoint HOST:29400");
  if (written.empty()) {
    meet_alone(request, options);
    return {};
  }
  const auto endpoint = parse_endpoint(written);
  if (!endpoint) return bad("--rdzv-endpoint: " + endpoint.error().what, endpoint.error().remedy);
  if (endpoint->port == 0 && request.hosts.maximum > 1)
    return bad(fmt::format("--rdzv-endpoint {}: several hosts cannot guess a free port", written), "name the port");
  request.run_id = options.rdzv_id.value_or("none");
  if (endpoint->port == 0) {
    meet_alone(request, options);
    return {};
  }
  request.meeting.kind = Meeting::Kind::by_endpoint;
  request.meeting.endpoint = {endpoint->host, endpoint->port.value_or(dynamic_port)};
  return {};
}

Result<void> meet_by_rank(LaunchRequest& request, const LaunchOptions& options) {
  Endpoint endpoint{options.master_addr.value_or("127.0.0.1"), std::nullopt};
  if (options.master_port) endpoint.port = static_cast<std::uint16_t>(*options.master_port);
  if (options.rdzv_endpoint && !options.rdzv_endpoint->empty()) {
    const auto written = parse_endpoint(*options.rdzv_endpoint);
    if (!written) return bad("--rdzv-endpoint: " + written.error().what, written.error().remedy);
    if (!written->port) return bad(fmt::format("--rdzv-endpoint {} has no port", *options.rdzv_endpoint), "HOST:PORT");
    endpoint = *written;
  } else if (const auto bare = parse_endpoint(endpoint.host); bare && !bare->port) {
    endpoint.host = bare->host;  // an IPv6 address may stand in brackets
  }
  request.meeting.endpoint = endpoint;
  request.hosts.minimum = request.hosts.maximum;
  if (request.hosts.maximum == 1) {
    const bool described = endpoint.port.has_value();
    request.run_id = options.rdzv_id.value_or(described ? "none" : random_id());
    request.meeting.kind = Meeting::Kind::alone;
    return {};
  }
  const int node_rank = options.node_rank.value_or(0);
  if (node_rank < 0 || node_rank >= request.hosts.maximum)
    return bad(fmt::format("--node-rank {} among {} hosts", node_rank, request.hosts.maximum),
               fmt::format("0 to {}", request.hosts.maximum - 1));
  if (request.meeting.endpoint.port.value_or(static_port) == 0)
    return bad("--master-port 0: several hosts cannot guess a free port", "name the port");
  request.meeting.kind = Meeting::Kind::by_rank;
  request.meeting.endpoint.port = request.meeting.endpoint.port.value_or(static_port);
  request.meeting.node_rank = node_rank;
  request.run_id = options.rdzv_id.value_or("none");
  return {};
}

// ---- Slurm ----

bool describes_hosts(const LaunchOptions& options) {
  return options.nnodes || options.node_rank || options.master_addr || options.rdzv_endpoint || options.standalone;
}

Result<void> meet_in_slurm(service::LaunchWish& wish, const launch::SlurmTask& task, const LaunchOptions& options) {
  LaunchRequest& request = wish.request;
  request.run_id = options.rdzv_id.value_or("slurm-" + task.job);
  request.hosts = {task.task_count, task.task_count};
  request.meeting.kind = Meeting::Kind::by_rank;
  request.meeting.node_rank = task.rank;
  const auto port =
      options.master_port ? static_cast<std::uint16_t>(*options.master_port) : launch::slurm_port(task.job);
  request.meeting.endpoint = {task.host_count == 1 ? "127.0.0.1" : task.first_host, port};
  if (task.task_count == task.host_count) return {};  // one launcher on each host: that host's agent
  if (wish.ranks && *wish.ranks != service::RanksWish(1))
    return bad(fmt::format("srun started {} tasks on this host; each of them is one rank", task.local_task_count),
               "srun --ntasks-per-node=1 to let muster start the ranks, or leave --nproc-per-node out");
  wish.ranks = 1;
  request.place = {task.local_rank, task.local_task_count, task.host_index, task.host_count};
  return {};
}

Result<void> set_meeting(service::LaunchWish& wish, const LaunchOptions& options, const Environment& environment) {
  LaunchRequest& request = wish.request;
  request.signals.job_end = launch::slurm_job_end(environment);
  if (options.rdzv_backend == "static" && !describes_hosts(options)) {
    const auto task = launch::slurm_task(environment);
    if (!task) return task.error();
    if (*task && (*task)->task_count > 1) return meet_in_slurm(wish, **task, options);
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
  return bad(fmt::format("--rdzv-backend {} is not served", options.rdzv_backend),
             "static (with --node-rank) or c10d (with --rdzv-endpoint); neither needs a server of its own");
}

// ---- ranks ----

Result<std::optional<service::RanksWish>> parse_ranks(const LaunchOptions& options, const launch::HostRange& hosts) {
  using service::RanksPer;
  using service::RanksWish;
  if (options.num_processes) {
    if (options.nproc_per_node)
      return bad("--num-processes and --nproc-per-node say the same thing twice", "leave one of them out");
    if (*options.num_processes < 1 || *options.num_processes % hosts.maximum != 0)
      return bad(fmt::format("--num-processes {} on {} hosts", *options.num_processes, hosts.maximum),
                 "a multiple of the number of hosts");
    return std::optional<RanksWish>(*options.num_processes / hosts.maximum);
  }
  if (!options.nproc_per_node) return std::optional<RanksWish>();
  const std::string& text = *options.nproc_per_node;
  if (text == "gpu") return std::optional<RanksWish>(RanksPer::gpu);
  if (text == "cpu") return std::optional<RanksWish>(RanksPer::cpu);
  if (text == "auto") return std::optional<RanksWish>(RanksPer::automatic);
  const auto count = parse_number<int>(text);
  if (!count || *count < 1) return bad(fmt::format("--nproc-per-node {}", text), "a number from 1, gpu, cpu or auto");
  return std::optional<RanksWish>(*count);
}

Result<launch::Contract> parse_contract(const LaunchOptions& options) {
  const int chosen = options.isolated + options.own_gpu_first + options.virtual_local_rank;
  if (chosen > 1)
    return bad("--isolated, --own-gpu-first and --virtual-local-rank exclude each other", "leave all but one out");
  if (options.isolated) return launch::Contract::isolated;
  if (options.own_gpu_first) return launch::Contract::own_gpu_first;
  if (options.virtual_local_rank) return launch::Contract::virtual_local_rank;
  return launch::Contract::collective;
}

bool chooses_gpus(const SelectionOptions& selection) {
  return selection.count || selection.up_to || !selection.ids.empty() || selection.free || selection.model_size ||
         selection.maximum_utilization || selection.least_loaded;
}

Result<void> set_gpus(service::LaunchWish& wish, const LaunchOptions& options) {
  SelectionOptions selection = *options.selection;
  if (selection.ids == std::vector<std::string>{"all"})
    selection.ids.clear();  // as accelerate has it: the visible ones
  wish.form = selection.uuid ? gpu::MaskForm::uuid : gpu::MaskForm::as_inherited;
  wish.without_gpus = options.device == "cpu";
  if (options.numa_binding) wish.numa = gpu::parse_numa_binding(*options.numa_binding);
  if (!chooses_gpus(selection)) {
    if (options.device == "cuda" && !wish.ranks) wish.ranks = service::RanksPer::gpu;
    return {};
  }
  if (wish.without_gpus) return bad("--device cpu hides the GPUs that other options choose", "leave one of them out");
  // So many ranks need so many GPUs, where only their kind was described.
  if (!selection.count && !selection.up_to && selection.ids.empty() && !selection.model_size && wish.ranks)
    if (const auto* count = std::get_if<int>(&*wish.ranks)) selection.count = *count;
  auto request = selection_request(selection);
  if (!request) return request.error();
  wish.selection = std::move(*request);
  return {};
}

// ---- logs and signals ----

// A list with "," between; ",," stands for a comma.
std::vector<std::string> parse_filters(const std::string& text) {
  std::vector<std::string> filters;
  if (text.empty()) return filters;
  filters.emplace_back();
  for (std::size_t position = 0; position < text.size(); ++position) {
    if (text[position] != ',')
      filters.back() += text[position];
    else if (position + 1 < text.size() && text[position + 1] == ',')
      filters.back() += text[position++];
    else
      filters.emplace_back();
  }
  return filters;
}

Result<void> set_logs(LaunchRequest& request, const LaunchOptions& options, const Environment& environment) {
  if (options.log_dir && !options.log_dir->empty()) request.logs.folder = *options.log_dir;
  const auto redirects = launch::StreamChoice::parse(options.redirects);
  if (!redirects) return bad("--redirects: " + redirects.error().what, redirects.error().remedy);
  const auto tee = launch::StreamChoice::parse(options.tee);
  if (!tee) return bad("--tee: " + tee.error().what, tee.error().remedy);
  request.logs.redirects = *redirects;
  request.logs.tee = *tee;
  if (!options.local_ranks_filter.empty()) {
    for (const std::string& text : split(options.local_ranks_filter, ',')) {
      const auto rank = parse_number<int>(trim(text));
      if (!rank || *rank < 0)
        return bad(fmt::format("--local-ranks-filter {}", options.local_ranks_filter), "a list of local ranks: 0,1,2");
      request.logs.shown_ranks.insert(*rank);
    }
  }
  request.logs.output_filters = parse_filters(options.duplicate_stdout_filters);
  request.logs.error_filters = parse_filters(options.duplicate_stderr_filters);
  request.logs.prefix_template = variable(environment, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  return {};
}

Result<void> set_signals(LaunchRequest& request, const LaunchOptions& options, const Environment& environment) {
  auto ending = launch::parse_signal_list(options.signals_to_handle);
  if (!ending) return bad("--signals-to-handle: " + ending.error().what, ending.error().remedy);
  request.signals.ending = std::move(*ending);
  request.signals.ending_as_written = options.signals_to_handle;
  for (const int signal : {SIGUSR1, SIGUSR2})
    if (!request.signals.ending.contains(signal)) request.signals.passing.insert(signal);
  std::optional<int> seconds = options.shutdown_timeout;
  if (!seconds) {
    if (const auto text = variable(environment, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")) {
      seconds = parse_number<int>(*text);
      if (!seconds || *seconds < 0)
        return bad(fmt::format("TORCH_ELASTIC_SHUTDOWN_TIMEOUT={}", *text), "a number of seconds");
    }
  }
  if (seconds) request.signals.grace = std::chrono::seconds(*seconds);
  return {};
}

// What only torch itself could serve.
Result<void> refuse_plug_ins(const LaunchOptions& options) {
  if (options.logs_specs)
    return bad(fmt::format("--logs-specs {} names a Python plug-in of torchrun, which muster does not load",
                           *options.logs_specs),
               "--log-dir, --redirects, --tee and --local-ranks-filter choose where logs go");
  if (options.event_log_handler != "null" && !options.event_log_handler.empty())
    return bad(fmt::format("--event-log-handler {} names a Python plug-in of torch, which muster does not load",
                           options.event_log_handler),
               "leave it out");
  return {};
}

}  // namespace

Result<service::LaunchWish> launch_wish(const LaunchOptions& options, const Tail& program,
                                        const Environment& environment) {
  service::LaunchWish wish;
  LaunchRequest& request = wish.request;
  if (auto refused = refuse_plug_ins(options); !refused) return refused.error();
  if (auto set = set_program(request, options, program, environment); !set) return set.error();
  const auto hosts = parse_hosts(options.nnodes.value_or("1"));
  if (!hosts) return hosts.error();
  auto ranks = parse_ranks(options, *hosts);
  if (!ranks) return ranks.error();
  wish.ranks = *ranks;
  request.times.join = std::chrono::seconds(options.rdzv_backend == "static" ? 900 : 600);
  if (auto set = set_times(request, options); !set) return set.error();
  if (auto set = set_meeting(wish, options, environment); !set) return set.error();
  const auto contract = parse_contract(options);
  if (!contract) return contract.error();
  request.contract = *contract;
  if (auto set = set_gpus(wish, options); !set) return set.error();
  if (auto set = set_logs(request, options, environment); !set) return set.error();
  if (auto set = set_signals(request, options, environment); !set) return set.error();
  request.role = options.role;
  request.maximum_restarts = options.max_restarts;
  request.independent = options.independent;
  request.own_exit_code = options.exit_code == "worker";
  auto lease = lease_wish(*options.lease, "muster launch " + join(program.words, " "));
  if (!lease) return lease.error();
  wish.lease = std::move(*lease);
  return wish;
}

}  // namespace muster::cli
