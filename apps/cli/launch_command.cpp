// muster launch: one program as many ranks, as torchrun would start it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "cli/launch_job_request.hpp"
#include "cli/launch_options.hpp"
#include "cli/launch_text.hpp"
#include "job/launch.hpp"

namespace muster::cli {
namespace {

int launch(const LaunchOptions& options, const Tail& tail) {
  const auto request = read_launch_request(options, tail, launch::current_environment());
  if (!request) return report(request.error());
  host::Host host = open_host(*options.inventory);
  if (options.dry_run) {
    const auto plan = job::plan_launch(host, *request);
    if (!plan) return report(plan.error());
    if (options.json)
      show_json(launch_plan_json(*plan) + "\n");
    else
      show(launch_plan_text(*plan));
    return 0;
  }
  const auto code = job::run_launch(host, *request, {.note = note});
  return code ? *code : report(code.error());
}

}  // namespace

void add_launch_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("launch", "start a program as many ranks, on one host or several");
  command->footer(
      "muster launch [OPTIONS] SCRIPT [ARGUMENTS...]\n"
      "muster launch [OPTIONS] -m MODULE [ARGUMENTS...]\n"
      "muster launch [OPTIONS] -- PROGRAM [ARGUMENTS...]\n\n"
      "torchrun's options have its meaning and its PET_... variables; _ and - are the same. What follows the script is "
      "the script's.\nExit codes: 0 done, 1 a rank failed or a signal ended the run, 2 bad input, 3 refused (a GPU or "
      "port "
      "is in use).");
  auto options = add_launch_options(*command);
  command->callback([&action, options] {
    action.takes_tail = true;
    action.run = [options](const Tail& tail) { return launch(*options, tail); };
  });
}

}  // namespace muster::cli
