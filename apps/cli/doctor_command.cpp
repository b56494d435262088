// muster doctor: whether this machine can do the work, and what to type if it cannot.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/table.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "doctor/doctor.hpp"
#include "doctor/host_probe.hpp"
#include "doctor/worker_probe.hpp"

namespace muster::cli {
namespace {

using doctor::Check;
using doctor::CheckOutcome;

struct DoctorOptions {
  std::shared_ptr<InventoryOption> inventory;
  bool json = false;
  bool report_worker = false;
};

struct Look {
  std::string_view mark;
  std::string_view word;
  Colour colour;
};

Look look_of(CheckOutcome outcome) {
  switch (outcome) {
    case CheckOutcome::pass:
      return {"✓", "pass", Colour::green};
    case CheckOutcome::warning:
      return {"!", "warn", Colour::yellow};
    case CheckOutcome::failure:
      return {"✗", "FAIL", Colour::red};
  }
  return {};
}

struct Totals {
  std::ptrdiff_t passed, warnings, failed;
};

Totals count(const std::vector<Check>& checks) {
  const auto with = [&](CheckOutcome outcome) { return std::ranges::count(checks, outcome, &Check::outcome); };
  return {with(CheckOutcome::pass), with(CheckOutcome::warning), with(CheckOutcome::failure)};
}

std::string as_text(const std::vector<Check>& checks, bool colour) {
  std::size_t width = 0;
  for (const Check& check : checks) width = std::max(width, display_width(check.name));
  const std::string indentation(width + (colour ? 10 : 8), ' ');
  std::string text;
  for (const Check& check : checks) {
    const Look look = look_of(check.outcome);
    const std::string mark = colour ? fmt::format("{} {}", look.mark, look.word) : std::string(look.word);
    text += fmt::format("{}  {:<{}}  {}\n", paint(look.colour, mark, colour), check.name, width, check.finding);
    if (!check.remedy.empty()) text += fmt::format("{}try: {}\n", indentation, check.remedy);
  }
  const Totals totals = count(checks);
  return text + fmt::format("{} passed, {} {}, {} failed\n", totals.passed, totals.warnings,
                            totals.warnings == 1 ? "warning" : "warnings", totals.failed);
}

std::string as_json(const std::vector<Check>& checks) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Check& check : checks)
    list.push_back({{"name", check.name},
                    {"outcome", to_string(check.outcome)},
                    {"finding", check.finding},
                    {"remedy", check.remedy}});
  const Totals totals = count(checks);
  return Json{{"checks", list}, {"passed", totals.passed}, {"warnings", totals.warnings}, {"failed", totals.failed}}
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

int examine_host(const DoctorOptions& options) {
  const host::HostSources sources = open_host(*options.inventory).sources();
  if (options.report_worker) {
    fmt::print("{}\n", doctor::worker_report(sources));
    return 0;
  }
  const std::vector<Check> checks = examine(doctor::probe_host(sources, doctor::settings_from_environment()));
  options.json ? show_json(as_json(checks)) : show(as_text(checks, output_has_colour()));
  return count(checks).failed > 0 ? 1 : 0;
}

}  // namespace

void add_doctor_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("doctor", "check this machine, and say what to type where something is wrong");
  auto options = std::make_shared<DoctorOptions>();
  options->inventory = add_inventory_option(*command);
  command->add_flag("--json", options->json, "as JSON");
  // What the processes that doctor spawns are started with; an empty group keeps it out of --help.
  command->add_flag("--report-worker", options->report_worker, "print what this process sees, and end")->group("");
  command->callback([&action, options] { action.run = [options](const Tail&) { return examine_host(*options); }; });
}

}  // namespace muster::cli
