// muster sweep, sweep-multi: trials side by side, and the best settings found.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "base/count_of.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "cli/called_as.hpp"
#include "cli/command.hpp"
#include "cli/selection_options.hpp"
#include "cli/status_line.hpp"
#include "service/sweep.hpp"
#include "system/files.hpp"

namespace muster::cli {
namespace {

struct SweepOptions {
  std::vector<std::string> words;  // SPEC.yaml, key=value
  std::optional<std::string> name;
  std::string output = "sweeps";
  std::vector<std::string> gpu_ids;
  std::optional<int> gpus, per_trial, runs;
  std::string device = "auto";
  bool dry_run = false;
  std::shared_ptr<InventoryOption> inventory;
  std::shared_ptr<LeaseOptions> lease;
};

struct BestOptions {
  std::string name;
  std::string output = "sweeps";
  std::size_t top = 1;
  std::optional<std::string> patch;
  bool json = false;
};

struct MultiOptions {
  std::string name;
  std::vector<std::string> words;  // [GPUS_PER_RUN [RUNS [TOTAL]]] [key=value…]
};

// The numbers of a list as in 0,2.
Result<std::vector<std::string>> ids_of(const std::string& list) {
  std::vector<std::string> ids;
  for (const std::string& id : split(list, ',')) ids.emplace_back(trim(id));
  if (ids.empty() || std::ranges::find(ids, "") != ids.end())
    return bad_input(fmt::format("\"{}\" is not a list of GPUs", list), "write it as in 0,1,2,3; muster gpus lists them");
  return ids;
}

// run=NAME, gpu_list=0,1 and sweep=FILE are this command's; a word without = is the file; the rest belongs to the
// sweep.
Result<void> take_word(const std::string& word, service::SweepRequest& request) {
  const auto value_of = [&](std::string_view key) -> std::optional<std::string> {
    if (!word.starts_with(std::string(key) + "=")) return std::nullopt;
    return word.substr(key.size() + 1);
  };
  if (const auto name = value_of("run")) {
    request.name = *name;
  } else if (const auto list = value_of("gpu_list")) {
    auto ids = ids_of(*list);
    if (!ids) return ids.error();
    request.slots.ids = std::move(*ids);
    request.slots.one_trial_on_all = true;
  } else if (word.find('=') != std::string::npos && !value_of("sweep")) {
    request.words.push_back(word);
  } else {
    std::string file = value_of("sweep").value_or(word);
    if (request.file) return bad_input(fmt::format("two sweep files: {} and {}", *request.file, file), "name one");
    request.file = std::move(file);
  }
  return {};
}

Result<service::SweepRequest> read_sweep_request(const SweepOptions& options, const std::string& command) {
  service::SweepRequest request;
  request.name = options.name;
  request.output = options.output;
  request.slots.gpus = options.gpus;
  request.slots.per_trial = options.per_trial;
  request.slots.runs = options.runs;
  request.slots.without_gpus = options.device == "cpu";
  // Words that follow --gpu-ids 0 1 are ids as long as they look like ids.
  for (const std::string& word : options.gpu_ids) {
    const bool is_id = word.find_first_not_of("0123456789,") == std::string::npos || word.starts_with("GPU-") ||
                       word.starts_with("MIG-");
    if (!is_id) {
      if (auto taken = take_word(word, request); !taken) return taken.error();
      continue;
    }
    auto ids = ids_of(word);
    if (!ids) return ids.error();
    std::ranges::move(*ids, std::back_inserter(request.slots.ids));
  }
  for (const std::string& word : options.words)
    if (auto taken = take_word(word, request); !taken) return taken.error();
  const char* list = std::getenv("GPU_LIST");
  const bool nothing_said = request.slots.ids.empty() && !options.gpus && !options.runs && !request.slots.without_gpus;
  if (list != nullptr && *list != '\0' && nothing_said)
    if (auto taken = take_word(fmt::format("gpu_list={}", list), request); !taken) return taken.error();
  auto lease = read_lease_request(*options.lease, command);
  if (!lease) return lease.error();
  request.lease = std::move(*lease);
  return request;
}

std::string progress_text(const service::SweepProgress& progress) {
  const std::string trials = progress.limit
                                 ? fmt::format("{}/{}", progress.finished, count_of(*progress.limit, "trial"))
                                 : count_of(progress.finished, "trial");
  return fmt::format("{}, best {}; {}", trials, progress.best ? fmt::format("{:.6g}", *progress.best) : "none",
                     join(progress.running, "; "));
}

int carry_out(const service::SweepRequest& request, const InventoryOption& inventory, bool dry_run) {
  const auto plan = service::plan_sweep(request);
  if (!plan) return report(plan.error());
  for (const std::string& text : plan->notes) note(text);
  host::Host host = open_host(inventory);
  if (dry_run) {
    const auto slots = service::plan_slots(host, request.slots, request.lease);
    if (!slots) return report(slots.error());
    show(service::describe_sweep(*plan, *slots));
    return 0;
  }
  ::signal(SIGPIPE, SIG_IGN);
  StatusLine line;
  service::SweepListener listener;
  listener.note = [&line](const std::string& text) {
    line.clear();
    note(text);
  };
  listener.ended = [&line](const std::string& text) {
    line.clear();
    show(text + "\n");
    std::fflush(stdout);
  };
  listener.progress = [&line](const service::SweepProgress& progress) {
    line.show(progress_text(progress), std::chrono::hours(1));
  };
  const auto summary = service::run_sweep(host, request, *plan, listener);
  line.clear();
  if (!summary) return report(summary.error());
  show(service::summary_text(*plan, *summary, shell_word(called_as())));
  return summary->exit_code();
}

int serve(const SweepOptions& options) {
  service::SweepRequest request;
  request.name = options.name;
  request.output = options.output;
  for (const std::string& word : options.words)
    if (auto taken = take_word(word, request); !taken) return report(taken.error());
  // An existing sweep may be named without its file.
  if (request.file && !request.name && !std::filesystem::exists(*request.file) && sweep::check_sweep_name(*request.file) &&
      sweep::SweepFolder(request.output, *request.file).exists()) {
    request.name = request.file;
    request.file.reset();
  }
  const auto plan = service::plan_sweep(request);
  if (!plan) return report(plan.error());
  for (const std::string& text : plan->notes) note(text);
  const auto done = service::serve_sweep(*plan, note);
  return done ? 0 : report(done.error());
}

int best(const BestOptions& options) {
  const auto list = service::best_of_sweep(options.output, options.name, options.top, called_as());
  if (!list) return report(list.error());
  if (options.patch)
    if (auto written = write_file_atomically(*options.patch, list->front().patch); !written)
      return report(written.error());
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const service::BestTrial& trial : *list) {
      nlohmann::ordered_json one = sweep::to_json(trial.observation);
      one["patch"] = trial.patch;
      one["overrides"] = trial.overrides;
      one["command"] = trial.command;
      json.push_back(std::move(one));
    }
    show_json(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return 0;
  }
  for (const service::BestTrial& trial : *list) {
    show(fmt::format("# {}: {} in {:.1f} s{}\n{}", trial.observation.trial, *trial.observation.score,
               trial.observation.cost_seconds, trial.observation.stopped_early ? ", stopped early" : "", trial.patch));
    std::vector<std::string> words;
    for (const std::string& word : trial.overrides) words.push_back(shell_word(word));
    show(fmt::format("# overrides: {}\n# command: {}\n", join(words, " "), trial.command));
  }
  return 0;
}

constexpr int usual_runs = 4;  // of sweep-multi

Result<service::SweepRequest> read_multi(const MultiOptions& multi, const SweepOptions& options) {
  SweepOptions rest = options;
  std::vector<int> numbers;
  for (const std::string& word : multi.words) {
    constexpr std::size_t most_numbers = 3;
    if (const auto number = parse_number<int>(word); number && numbers.size() < most_numbers)
      numbers.push_back(*number);
    else if (word.find('=') != std::string::npos)
      rest.words.push_back(word);
    else
      return bad_input(fmt::format("\"{}\" is neither a number of GPUs or runs nor key=value", word),
                       "muster sweep-multi NAME [GPUS_PER_RUN [RUNS [TOTAL]]] [key=value…]");
  }
  rest.name = multi.name;
  auto request = read_sweep_request(rest, "muster sweep-multi " + multi.name);
  if (!request) return request;
  request->slots.per_trial = numbers.empty() ? 1 : numbers[0];
  request->slots.runs = numbers.size() > 1 ? numbers[1] : usual_runs;
  if (numbers.size() > 2) request->slots.total = numbers[2];
  request->slots.first_gpus = true;
  return request;
}

void add_run_options(CLI::App& command, SweepOptions& options) {
  command.add_flag("--dry-run", options.dry_run,
                   "show space, method, limits, GPUs and what comes first; start nothing");
  command.add_option("--output", options.output, "the folder of all sweeps")->capture_default_str();
  options.inventory = add_inventory_option(command);
  options.lease = add_lease_options(command);
}

void add_best(CLI::App& command, Action& action) {
  CLI::App* best_command =
      command.add_subcommand("best", "show the best settings: as a YAML patch, as overrides and as a command");
  auto options = std::make_shared<BestOptions>();
  best_command->add_option("NAME", options->name, "the sweep")->required();
  best_command->add_option("--top", options->top, "how many")->capture_default_str()->check(CLI::Range(1, 1000000));
  best_command->add_option("--patch", options->patch, "write the very best as a configuration file");
  best_command->add_option("--output", options->output, "the folder of all sweeps")->capture_default_str();
  best_command->add_flag("--json", options->json, "for programs");
  best_command->callback([&action, options] { action.run = [options](const Tail&) { return best(*options); }; });
}

void add_serve(CLI::App& command, Action& action) {
  CLI::App* serve_command =
      command.add_subcommand("serve", "suggest and record trials, one JSON object a line, on standard input and output");
  auto options = std::make_shared<SweepOptions>();
  serve_command->add_option("SWEEP", options->words, "SPEC.yaml, or the name of a sweep that is there; key=value")
      ->required();
  serve_command->add_option("--name", options->name, "the sweep's name (default: the name in SPEC)");
  serve_command->add_option("--output", options->output, "the folder of all sweeps")->capture_default_str();
  serve_command->footer("docs/sweep.md lists all requests.");
  serve_command->callback([&action, options] { action.run = [options](const Tail&) { return serve(*options); }; });
}

}  // namespace

void add_sweep_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("sweep", "try settings side by side, each on GPUs of its own");
  auto options = std::make_shared<SweepOptions>();
  command->add_option("WORDS", options->words,
                      "SPEC.yaml; run=NAME (its own sweep.yaml, or the built-in sweep), gpu_list=0,1 (one trial at a "
                      "time on these), sweep=FILE; key=value for the sweep (limits.trials=50) or for every trial");
  command->add_option("--name", options->name, "the sweep's name (default: the name in SPEC)");
  command->add_option("-n,--num-gpus", options->gpus, "how many GPUs for all trials together");
  command->add_option("--gpu-ids", options->gpu_ids, "these GPUs, by number within CUDA_VISIBLE_DEVICES or by UUID")
      ->expected(1, -1);
  command->add_option("-k,--gpus-per-trial", options->per_trial, "GPUs of each trial (default: 1)");
  command->add_option("--runs", options->runs, "trials side by side");
  command->add_option("--device", options->device, "auto or cpu: no GPU even where there is one")
      ->check(CLI::IsMember({"auto", "cpu"}))
      ->capture_default_str();
  add_run_options(*command, *options);
  command->require_subcommand(0, 1);
  command->footer("The same command resumes a sweep that was interrupted.");
  command->callback([&action, options, command] {
    if (!command->get_subcommands().empty()) return;
    action.run = [options](const Tail&) {
      auto request = read_sweep_request(*options, "muster sweep " + join(options->words, " "));
      if (!request) return report(request.error());
      return carry_out(*request, *options->inventory, options->dry_run);
    };
  });
  add_best(*command, action);
  add_serve(*command, action);
}

void add_sweep_multi_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("sweep-multi", "run one sweep as several runs side by side, with so many GPUs each, from GPU 0 on");
  auto options = std::make_shared<SweepOptions>();
  auto multi = std::make_shared<MultiOptions>();
  command->add_option("NAME", multi->name, "the sweep: its own sweep.yaml, sweep=FILE, or the built-in one")
      ->required();
  command->add_option("WORDS", multi->words,
                      "[GPUS_PER_RUN [RUNS [TOTAL]]] [key=value…]: GPUs of each run (1; 0: the CPU), runs side by side "
                      "(4), GPUs in all (as many as are visible)");
  add_run_options(*command, *options);
  command->callback([&action, options, multi] {
    action.run = [options, multi](const Tail&) {
      auto request = read_multi(*multi, *options);
      if (!request) return report(request.error());
      return carry_out(*request, *options->inventory, options->dry_run);
    };
  });
}

}  // namespace muster::cli
