// The options of muster launch: torchrun's, those of accelerate launch that mean the same, and muster's own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/selection_options.hpp"

namespace CLI {
class App;
}

namespace muster::cli {

// As typed, or from PET_<NAME>; absent: neither.
struct LaunchOptions {
  std::optional<std::string> nnodes;
  std::optional<std::string> nproc_per_node;
  std::optional<int> num_processes;
  std::string rdzv_backend = "static";
  std::optional<std::string> rdzv_endpoint;
  std::optional<std::string> rdzv_id;
  std::string rdzv_conf;
  std::optional<std::string> rdzv_secret_file;
  bool insecure = false;
  bool standalone = false;
  int max_restarts = 0;
  double monitor_interval = 0.1;
  std::string start_method = "spawn";
  std::string event_log_handler = "null";
  std::string role = "default";
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  std::optional<std::string> log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string local_ranks_filter;
  std::string duplicate_stdout_filters;
  std::string duplicate_stderr_filters;
  std::optional<int> node_rank;
  std::optional<std::string> master_addr;
  std::optional<int> master_port;
  std::optional<std::string> local_addr;
  std::optional<std::string> logs_specs;
  std::optional<std::string> numa_binding;
  std::string signals_to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  std::optional<int> shutdown_timeout;
  bool virtual_local_rank = false;
  bool multi_gpu = false;

  bool isolated = false;
  bool own_gpu_first = false;
  bool independent = false;
  std::string exit_code = "torchrun";
  std::string device = "auto";
  bool dry_run = false;
  bool json = false;
  std::shared_ptr<SelectionOptions> selection;
  std::shared_ptr<LeaseOptions> lease;
  std::shared_ptr<InventoryOption> inventory;
};

std::shared_ptr<LaunchOptions> add_launch_options(CLI::App& command);

}  // namespace muster::cli
