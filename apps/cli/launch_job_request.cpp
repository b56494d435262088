#include "cli/launch_job_request.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "base/text.hpp"
#include "cli/launch_rendezvous.hpp"
#include "launch/keeper/signal_name.hpp"

namespace muster::cli {
namespace {

using launch::Environment;
using launch::LaunchRequest;

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
    return bad_input("nothing to launch", "muster launch train.py --lr 1e-4, or muster launch -- ./program");
  request.entry = program.words.front();
  if (program.separated || (options.no_python && !options.run_path)) {
    if (options.module)
      return bad_input("--module means a Python module, --no-python and -- a program", "leave one of them out");
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

// ---- ranks ----

Result<std::optional<job::RanksRequest>> parse_ranks(const LaunchOptions& options, const launch::HostRange& hosts) {
  using job::RanksPer;
  using job::RanksRequest;
  if (options.num_processes) {
    if (options.nproc_per_node)
      return bad_input("--num-processes and --nproc-per-node say the same thing twice", "leave one of them out");
    if (*options.num_processes < 1 || *options.num_processes % hosts.maximum != 0)
      return bad_input(fmt::format("--num-processes {} on {} hosts", *options.num_processes, hosts.maximum),
                       "a multiple of the number of hosts");
    return std::optional<RanksRequest>(*options.num_processes / hosts.maximum);
  }
  if (!options.nproc_per_node) return std::optional<RanksRequest>();
  const std::string& text = *options.nproc_per_node;
  if (text == "gpu") return std::optional<RanksRequest>(RanksPer::gpu);
  if (text == "cpu") return std::optional<RanksRequest>(RanksPer::cpu);
  if (text == "auto") return std::optional<RanksRequest>(RanksPer::automatic);
  const auto count = parse_number<int>(text);
  if (!count || *count < 1)
    return bad_input(fmt::format("--nproc-per-node {}", text), "a number from 1, gpu, cpu or auto");
  return std::optional<RanksRequest>(*count);
}

Result<launch::Contract> parse_contract(const LaunchOptions& options) {
  const int chosen = options.isolated + options.own_gpu_first + options.virtual_local_rank;
  if (chosen > 1)
    return bad_input("--isolated, --own-gpu-first and --virtual-local-rank exclude each other",
                     "leave all but one out");
  if (options.isolated) return launch::Contract::isolated;
  if (options.own_gpu_first) return launch::Contract::own_gpu_first;
  if (options.virtual_local_rank) return launch::Contract::virtual_local_rank;
  return launch::Contract::collective;
}

bool chooses_gpus(const SelectionOptions& selection) {
  return selection.count || selection.up_to || !selection.ids.empty() || selection.free || selection.model_size ||
         selection.maximum_utilization || selection.least_loaded;
}

// GPU_LIST=4,5 chooses as --gpu-ids 4 5 does, if no option chooses. Its numbers refer to the mask that this
// process has; ranks get a narrower one, and no list.
void take_gpu_list(SelectionOptions& selection, job::LaunchJobRequest& job, const Environment& environment) {
  const auto list = variable(environment, "GPU_LIST");
  if (!list || chooses_gpus(selection) || job.without_gpus) return;
  for (const std::string& id : split(*list, ',')) selection.ids.emplace_back(trim(id));
  job.environment.emplace_back("GPU_LIST", "");
}

Result<void> set_gpus(job::LaunchJobRequest& job, const LaunchOptions& options, const Environment& environment) {
  SelectionOptions selection = *options.selection;
  if (selection.ids == std::vector<std::string>{"all"})
    selection.ids.clear();  // as in accelerate: the visible ones
  job.form = selection.uuid ? gpu::MaskForm::uuid : gpu::MaskForm::as_inherited;
  job.without_gpus = options.device == "cpu";
  take_gpu_list(selection, job, environment);
  if (options.numa_binding) job.numa = gpu::parse_numa_binding(*options.numa_binding);
  if (!chooses_gpus(selection)) {
    if (options.device == "cuda" && !job.ranks) job.ranks = job::RanksPer::gpu;
    return {};
  }
  if (job.without_gpus)
    return bad_input("--device cpu hides the GPUs that other options choose", "leave one of them out");
  // This many ranks need this many GPUs, if only their kind was described.
  if (!selection.count && !selection.up_to && selection.ids.empty() && !selection.model_size && job.ranks)
    if (const auto* count = std::get_if<int>(&*job.ranks)) selection.count = *count;
  auto request = selection_request(selection);
  if (!request) return request.error();
  request->offered.wait = request->offered.share = true;
  job.selection = std::move(*request);
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
  if (!redirects) return bad_input("--redirects: " + redirects.error().what, redirects.error().remedy);
  const auto tee = launch::StreamChoice::parse(options.tee);
  if (!tee) return bad_input("--tee: " + tee.error().what, tee.error().remedy);
  request.logs.redirects = *redirects;
  request.logs.tee = *tee;
  if (!options.local_ranks_filter.empty()) {
    for (const std::string& text : split(options.local_ranks_filter, ',')) {
      const auto rank = parse_number<int>(trim(text));
      if (!rank || *rank < 0)
        return bad_input(fmt::format("--local-ranks-filter {}", options.local_ranks_filter),
                         "a list of local ranks: 0,1,2");
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
  if (!ending) return bad_input("--signals-to-handle: " + ending.error().what, ending.error().remedy);
  request.signals.ending = std::move(*ending);
  request.signals.ending_as_written = options.signals_to_handle;
  for (const int signal : {SIGUSR1, SIGUSR2})
    if (!request.signals.ending.contains(signal)) request.signals.passing.insert(signal);
  std::optional<int> seconds = options.shutdown_timeout;
  if (!seconds) {
    if (const auto text = variable(environment, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")) {
      seconds = parse_number<int>(*text);
      if (!seconds || *seconds < 0)
        return bad_input(fmt::format("TORCH_ELASTIC_SHUTDOWN_TIMEOUT={}", *text), "a number of seconds");
    }
  }
  if (seconds) request.signals.grace = std::chrono::seconds(*seconds);
  return {};
}

// What only torch itself could do.
Result<void> refuse_plug_ins(const LaunchOptions& options) {
  if (options.logs_specs)
    return bad_input(fmt::format("--logs-specs {} names a Python plug-in of torchrun, which muster does not load",
                                 *options.logs_specs),
                     "--log-dir, --redirects, --tee and --local-ranks-filter choose where logs go");
  if (options.event_log_handler != "null" && !options.event_log_handler.empty())
    return bad_input(fmt::format("--event-log-handler {} names a Python plug-in of torch, which muster does not load",
                                 options.event_log_handler),
                     "leave it out");
  return {};
}

}  // namespace

Result<job::LaunchJobRequest> read_launch_request(const LaunchOptions& options, const Tail& program,
                                                     const Environment& environment) {
  job::LaunchJobRequest job;
  LaunchRequest& request = job.request;
  if (auto refused = refuse_plug_ins(options); !refused) return refused.error();
  if (auto set = set_program(request, options, program, environment); !set) return set.error();
  const auto hosts = parse_hosts(options.nnodes.value_or("1"));
  if (!hosts) return hosts.error();
  auto ranks = parse_ranks(options, *hosts);
  if (!ranks) return ranks.error();
  job.ranks = *ranks;
  request.times.join = std::chrono::seconds(options.rdzv_backend == "static" ? 900 : 600);
  if (auto set = set_times(request, options); !set) return set.error();
  if (auto set = set_meeting(job, options, environment); !set) return set.error();
  const auto contract = parse_contract(options);
  if (!contract) return contract.error();
  request.contract = *contract;
  if (auto set = set_gpus(job, options, environment); !set) return set.error();
  if (auto set = set_logs(request, options, environment); !set) return set.error();
  if (auto set = set_signals(request, options, environment); !set) return set.error();
  request.role = options.role;
  request.maximum_restarts = options.max_restarts;
  request.independent = options.independent;
  request.own_exit_code = options.exit_code == "worker";
  auto lease = read_lease_request(*options.lease, "muster launch " + join(program.words, " "));
  if (!lease) return lease.error();
  job.lease = std::move(*lease);
  return job;
}

}  // namespace muster::cli
