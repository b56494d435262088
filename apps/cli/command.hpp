// What every command of the program receives and returns.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "host/host.hpp"

namespace CLI {
class App;
}

namespace muster::cli {

// The end of a command line that belongs to another program: what follows a lone --, or a script with its arguments.
struct Tail {
  std::vector<std::string> words;
  bool separated = false;  // by a lone --
};

// A command line divided in two.
struct CommandLine {
  std::vector<std::string> own;
  Tail tail;
};

// The chosen command: runs, and returns the process's exit code. It gets the tail, which is refused beforehand
// if the command has no use for one.
struct Action {
  std::function<int(const Tail&)> run;
  bool takes_tail = false;
};

// Each adds its command to the program; parsing sets the action.
void add_gpus_command(CLI::App& program, Action& action);
void add_doctor_command(CLI::App& program, Action& action);
void add_config_command(CLI::App& program, Action& action);
void add_launch_command(CLI::App& program, Action& action);
// Where the options of muster launch end: at the script, or at a lone --.
Result<CommandLine> cut_launch_line(const CLI::App& command, const std::vector<std::string>& words);
void add_generate_command(CLI::App& program, Action& action);
void add_plan_command(CLI::App& program, Action& action);
void add_model_command(CLI::App& program, Action& action);
void add_tokenize_command(CLI::App& program, Action& action);
void add_runs_command(CLI::App& program, Action& action);
void add_train_command(CLI::App& program, Action& action);
void add_evaluate_command(CLI::App& program, Action& action);
void add_collect_command(CLI::App& program, Action& action);
void add_serve_environments_command(CLI::App& program, Action& action);
void add_run_command(CLI::App& program, Action& action);
void add_submit_command(CLI::App& program, Action& action);
void add_queue_command(CLI::App& program, Action& action);
void add_logs_command(CLI::App& program, Action& action);
void add_stop_command(CLI::App& program, Action& action);
void add_wait_command(CLI::App& program, Action& action);
void add_top_command(CLI::App& program, Action& action);
void add_sweep_command(CLI::App& program, Action& action);
void add_sweep_multi_command(CLI::App& program, Action& action);

// Prints an error on standard error in the program's own form and returns its exit code. It contains text from files
// and other hosts, whose control characters are shown, not obeyed; the same applies to note() and show().
int report(const Error& error);

// A line on standard error that is not an error: "muster: …".
void note(const std::string& text);

// Text for people on standard output, with its colours if it is a terminal.
void show(std::string_view text);

// JSON on standard output: what a terminal would obey is escaped, so that a program reads exactly what was written.
void show_json(std::string_view json);

// Where muster train puts runs by default.
std::string usual_output();

// --gpus-from FILE, for which MUSTER_GPUS is the environment variable.
struct InventoryOption {
  std::optional<std::string> file;
};
std::shared_ptr<InventoryOption> add_inventory_option(CLI::App& command);
host::Host open_host(const InventoryOption& option);

// An option whose time span may be omitted: --watch, --watch=500ms.
struct SpanOption {
  std::string name;
  std::vector<std::string> given;  // empty: the option was not given
  // The span, fallback if the option has no value, nothing if it was not given.
  Result<std::optional<std::chrono::milliseconds>> span_or(std::chrono::milliseconds fallback) const;
};
std::shared_ptr<SpanOption> add_span_option(CLI::App& command, const std::string& name, const std::string& help);

}  // namespace muster::cli
