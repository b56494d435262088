#include "cli/launch_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "base/text.hpp"

namespace muster::cli {
namespace {

// A check whose message is for people.
std::string not_negative(const std::string& text) {
  const auto number = parse_number<int>(text);
  return number && *number >= 0 ? "" : fmt::format("{} is not a number from 0", text);
}

std::string environment_name(std::string_view option) {
  std::string name = "PET_" + std::string(option);
  std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::toupper(letter); });
  std::ranges::replace(name, '-', '_');
  return name;
}

// Adds options that read PET_<NAME> if they are not typed. names: in CLI11's form, the one that names the variable
// first among the long ones.
class TorchOptions {
 public:
  explicit TorchOptions(CLI::App& command) : command_(command) {}

  template <class Value>
  CLI::Option* option(const std::string& names, Value& value, const std::string& help) {
    return named(command_.add_option(names, value, help));
  }
  CLI::Option* flag(const std::string& names, bool& value, const std::string& help) {
    return named(command_.add_flag(names, value, help));
  }

 private:
  CLI::Option* named(CLI::Option* option) {
    return option->envname(environment_name(option->get_lnames().front()))->group("As torchrun");
  }
  CLI::App& command_;
};

void add_size_options(CLI::App& command, LaunchOptions& options) {
  TorchOptions torch(command);
  torch.option("--nnodes,--num-machines", options.nnodes, "hosts: N, or MIN:MAX");
  torch.option("--nproc-per-node,--ranks", options.nproc_per_node, "ranks on this host: a number, gpu, cpu or auto");
  command.add_option("--num-processes", options.num_processes, "ranks on all hosts together, as accelerate counts")
      ->group("As torchrun");
  torch.option("--node-rank,--machine-rank", options.node_rank, "which of the hosts this is, from 0");
  torch.option("--master-addr,--main-process-ip", options.master_addr, "address of host 0");
  torch
      .option("--master-port,--main-process-port", options.master_port,
              "port on host 0; on one host a free one is taken")
      ->check(CLI::Range(0, 65535));
  torch.option("--local-addr", options.local_addr, "accepted; muster uses the address that hosts reach each other by");
  torch.flag("--standalone", options.standalone, "one host, whatever else is said");
}

void add_rendezvous_options(CLI::App& command, LaunchOptions& options) {
  TorchOptions torch(command);
  torch.option("--rdzv-backend", options.rdzv_backend, "static (places by --node-rank) or c10d (places as hosts come)")
      ->capture_default_str();
  torch.option("--rdzv-endpoint", options.rdzv_endpoint, "where hosts meet: HOST[:PORT]");
  torch.option("--rdzv-id", options.rdzv_id, "name of the run, the same on all hosts");
  torch.option("--rdzv-conf", options.rdzv_conf, "KEY=VALUE,KEY=VALUE: join_timeout (600), last_call_timeout (30), keep_alive_interval (1), in seconds");
  torch.option("--max-restarts", options.max_restarts, "how often a failed round is started again")
      ->capture_default_str()
      ->check(not_negative);
  torch.option("--monitor-interval", options.monitor_interval,
               "accepted; the kernel notifies muster, which never polls");
}

void add_program_options(CLI::App& command, LaunchOptions& options) {
  TorchOptions torch(command);
  torch.flag("-m,--module", options.module, "the script is a Python module");
  torch.flag("--no-python", options.no_python, "the script is a program of its own");
  torch.flag("--run-path", options.run_path, "run the script with runpy, its errors recorded");
  torch.option("--role", options.role, "name of the ranks")->capture_default_str();
  torch.option("--start-method", options.start_method, "accepted; ranks are always programs of their own")
      ->check(CLI::IsMember({"spawn", "fork", "forkserver"}));
  torch.option("--event-log-handler", options.event_log_handler, "null; other handlers are plug-ins of torch");
  command.add_option("--logs-specs", options.logs_specs, "not served: a plug-in of torch")->group("As torchrun");
  torch.flag("--virtual-local-rank", options.virtual_local_rank, "every rank sees its own GPU only; LOCAL_RANK is 0");
  command.add_option("--numa-binding", options.numa_binding, "keep ranks on the CPUs near their GPU")
      ->check(CLI::IsMember({"node", "socket", "exclusive", "core-complex"}))
      ->group("As torchrun");
  torch.option("--signals-to-handle", options.signals_to_handle, "signals that are passed on and end the run")
      ->capture_default_str();
  torch.option("--shutdown-timeout", options.shutdown_timeout, "seconds ranks have to end before they are killed (30)")
      ->check(not_negative);
}

void add_log_options(CLI::App& command, LaunchOptions& options) {
  TorchOptions torch(command);
  torch.option("--log-dir", options.log_dir, "folder for the logs; /dev/null: none");
  torch
      .option("-r,--redirects", options.redirects,
              "streams to files: 0 none, 1 output, 2 errors, 3 both; 0:3,1:2 by rank")
      ->capture_default_str();
  torch.option("-t,--tee", options.tee, "streams to files and to the terminal, line by line")->capture_default_str();
  torch.option("--local-ranks-filter", options.local_ranks_filter, "only these local ranks on the terminal: 0,1");
  torch.option("--duplicate-stdout-filters", options.duplicate_stdout_filters,
               "tee'd lines with one of these words also go to filtered_stdout.log");
  torch.option("--duplicate-stderr-filters", options.duplicate_stderr_filters,
               "tee'd lines with one of these words also go to filtered_stderr.log");
}

void add_own_options(CLI::App& command, LaunchOptions& options) {
  command.add_flag("--isolated", options.isolated, "every rank sees its own GPU only, as device 0");
  command.add_flag("--own-gpu-first", options.own_gpu_first,
                   "every rank sees its own GPU as device 0, the others after it");
  command.add_option("--rdzv-secret-file", options.rdzv_secret_file,
                     "several hosts: file with the secret they share; the first host makes it (also "
                     "MUSTER_RDZV_SECRET, the secret itself)");
  command.add_flag("--insecure", options.insecure,
                   "no secret between hosts, and a store that every user and host can reach");
  command.add_flag("--independent", options.independent, "a rank that fails does not end the others");
  command
      .add_option("--exit-code", options.exit_code, "torchrun: 1 for any failure; worker: the first failing rank's own")
      ->check(CLI::IsMember({"torchrun", "worker"}))
      ->capture_default_str();
  command.add_option("--device", options.device, "cpu hides the GPUs from the ranks")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->capture_default_str();
  command.add_flag("--multi-gpu", options.multi_gpu, "accepted, as accelerate launch has it")->group("");
  command.add_flag("--dry-run", options.dry_run, "show the ranks, their GPUs and addresses, and start nothing");
  command.add_flag("--json", options.json, "with --dry-run: as JSON");
}

}  // namespace

std::shared_ptr<LaunchOptions> add_launch_options(CLI::App& command) {
  auto options = std::make_shared<LaunchOptions>();
  add_size_options(command, *options);
  add_rendezvous_options(command, *options);
  add_program_options(command, *options);
  add_log_options(command, *options);
  options->selection = add_selection_options(command);
  options->lease = add_lease_options(command);
  options->inventory = add_inventory_option(command);
  add_own_options(command, *options);
  return options;
}

}  // namespace muster::cli
