#include "cli/commands.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

namespace muster::cli {
namespace {

constexpr std::string_view models = "Models", machine = "GPUs and this machine", jobs = "Many jobs",
                           about = "Settings and help";

constexpr std::array command_table{
    Command{"train", models, add_train_command},
    Command{"generate", models, add_generate_command},
    Command{"evaluate", models, add_evaluate_command},
    Command{"collect", models, add_collect_command},
    Command{"serve-environments", models, add_serve_environments_command},
    Command{"runs", models, add_runs_command},
    Command{"model", models, add_model_command},
    Command{"tokenize", models, add_tokenize_command},
    Command{"plan", models, add_plan_command},
    Command{"gpus", machine, add_gpus_command},
    Command{"top", machine, add_top_command},
    Command{"doctor", machine, add_doctor_command},
    Command{"launch", machine, add_launch_command, cut_launch_line},
    Command{"submit", jobs, add_submit_command},
    Command{"queue", jobs, add_queue_command},
    Command{"logs", jobs, add_logs_command},
    Command{"stop", jobs, add_stop_command},
    Command{"wait", jobs, add_wait_command},
    Command{"run", jobs, add_run_command},
    Command{"sweep", jobs, add_sweep_command},
    Command{"sweep-multi", jobs, add_sweep_multi_command},
    Command{"config", about, add_config_command},
    Command{"completion", about, add_completion_command},
    Command{"man", about, add_man_command},
};

}  // namespace

std::span<const Command> commands() { return command_table; }

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find(command_table, name, &Command::name);
  return found == command_table.end() ? nullptr : &*found;
}

std::unique_ptr<CLI::App> make_program(Action& action, const Command* named) {
  auto program = std::make_unique<CLI::App>("muster turns the GPUs you have into finished language-model work.", "muster");
  program->set_help_flag("-h,--help", "show this, and stop");
  program->set_version_flag("-V,--version", "muster " MUSTER_VERSION, "show the version, and stop");
  program->require_subcommand(1);
  for (const Command& command : command_table) {
    if (named != nullptr && named != &command) continue;
    command.add(*program, action);
    program->get_subcommand(std::string(command.name))->group(std::string(command.group));
  }
  return program;
}

}  // namespace muster::cli
