// muster gpus: see the GPUs; pick some; hold some for a command.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/gpu_json.hpp"
#include "cli/gpu_query.hpp"
#include "cli/gpu_table.hpp"
#include "cli/selection_options.hpp"
#include "cli/terminal.hpp"
#include "host/memory_wait.hpp"
#include "system/files.hpp"

namespace muster::cli {
namespace {

struct ShowOptions {
  std::shared_ptr<InventoryOption> inventory;
  bool list = false;
  bool plain = false;
  bool json = false;
  bool topology = false;
  std::shared_ptr<SpanOption> watch;
  std::string query;
  std::string format = "csv";
};

Result<std::string> render(const host::HostView& view, const ShowOptions& options) {
  if (!options.query.empty()) return query_gpus(view, options.query, options.format);
  if (options.json) return gpu_json(view) + "\n";
  if (options.topology) return link_matrix(view, output_has_colour());
  if (options.list) return gpu_names(view);
  if (options.plain) return gpu_lines(view);
  return gpu_table(view, output_has_colour());
}

int show_once(host::Host& host, const ShowOptions& options, std::string_view before) {
  const auto view = host.look(options.list ? gpu::Detail::memory : gpu::Detail::everything);
  if (!view) return report(view.error());
  const auto text = render(*view, options);
  if (!text) return report(text.error());
  fmt::print("{}", before);
  options.json ? show_json(*text) : show(*text);
  std::fflush(stdout);
  return 0;
}

int show_gpus(const ShowOptions& options) {
  host::Host host = open_host(*options.inventory);
  const auto period = options.watch->span_or(std::chrono::seconds(2));
  if (!period) return report(period.error());
  if (!*period) return show_once(host, options, "");
  if (**period < std::chrono::milliseconds(100))
    return report({Error::Kind::bad_input,
                   fmt::format("--watch={}ms asks the driver more than ten times a second", (*period)->count()),
                   "use 100ms or more"});
  const std::string_view clear_screen = ::isatty(STDOUT_FILENO) == 1 ? "\033[H\033[2J" : "";
  while (true) {
    if (const int failed = show_once(host, options, clear_screen); failed != 0) return failed;
    if (std::ferror(stdout) != 0) return 0;  // the reader is gone
    std::this_thread::sleep_for(**period);
  }
}

struct PickOptions {
  std::shared_ptr<InventoryOption> inventory;
  std::shared_ptr<SelectionOptions> selection;
  bool share = false;
  bool json = false;
};

int pick(const PickOptions& options) {
  auto request = selection_request(*options.selection);
  if (!request) return report(request.error());
  request->allow_leased = request->allow_busy = options.share;
  request->offered.share = true;
  host::Host host = open_host(*options.inventory);
  auto view = host.look();
  if (!view) return report(view.error());
  const auto choice = host::choose(std::move(*view), *request,
                                   options.selection->uuid ? gpu::MaskForm::uuid : gpu::MaskForm::as_inherited);
  if (!choice) return report(choice.error());
  if (options.json) {
    nlohmann::ordered_json json = {{"mask", choice->mask}, {"gpus", nlohmann::ordered_json::array()}};
    for (const gpu::VisibleIndex index : choice->devices) {
      const gpu::VisibleDevice& device = choice->view.visible[static_cast<std::size_t>(gpu::number(index))];
      json["gpus"].push_back(
          {{"visible_index", gpu::number(index)}, {"index", gpu::number(device.gpu)}, {"uuid", device.uuid->text}});
    }
    show_json(json.dump(2) + "\n");
  } else {
    fmt::print("{}\n", choice->mask);
  }
  return 0;
}

struct HoldOptions {
  std::shared_ptr<InventoryOption> inventory;
  std::shared_ptr<SelectionOptions> selection;
  std::shared_ptr<LeaseOptions> lease;
};

// The command replaces this process and keeps the lease: its exit code and signals are its own.
int hold(const HoldOptions& options, std::vector<std::string> command) {
  if (command.empty())
    return report({Error::Kind::bad_input, "no command to run", "muster gpus hold -n 2 -- python train.py"});
  auto request = selection_request(*options.selection);
  if (!request) return report(request.error());
  request->offered.wait = request->offered.share = true;
  const auto lease_request = read_lease_request(*options.lease, join(command, " "));
  if (!lease_request) return report(lease_request.error());
  host::Host host = open_host(*options.inventory);
  auto grant = host.hold(*request, *lease_request, options.selection->uuid ? gpu::MaskForm::uuid : gpu::MaskForm::as_inherited);
  if (!grant) return report(grant.error());
  for (const std::string& text : grant->notes) note(text);
  for (const auto& [name, value] : grant->environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return report({Error::Kind::bad_input, fmt::format("cannot run {}: {}", command[0], system_reason()),
                 "check the name, or give the path"});
}

// What keepers of jobs and trials call.
int await_memory(const std::vector<std::string>& words, const std::string& within) {
  const auto most = parse_duration(within);
  if (!most) return report(most.error());
  std::vector<host::UsedBefore> before;
  for (const std::string& word : words) {
    auto used = host::read_used_before(word);
    if (!used) return report(used.error());
    before.push_back(std::move(*used));
  }
  const auto back = host::wait_for_memory(host::sources_from_environment(), before, *most);
  return back ? 0 : report(back.error());
}

}  // namespace

void add_gpus_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("gpus", "show the GPUs, pick some, or hold some for a command");
  command->require_subcommand(0, 1);
  auto options = std::make_shared<ShowOptions>();
  options->inventory = add_inventory_option(*command);
  command->add_flag("-L,--list", options->list, "names and UUIDs of all GPUs, as nvidia-smi -L");
  command->add_flag("--plain", options->plain, "one line per GPU, without columns");
  command->add_flag("--json", options->json, "as JSON");
  command->add_flag("--topology", options->topology, "how the GPUs are linked");
  options->watch =
      add_span_option(*command, "--watch", "again and again; with a span, that often, as in --watch=500ms");
  command->add_option("--query,--query-gpu", options->query,
                      "these facts, as nvidia-smi names them: " + query_field_names());
  command->add_option("--format", options->format, "with --query: csv[,noheader][,nounits]")->capture_default_str();
  command->callback([&action, options] {
    if (!action.run) action.run = [options](const Tail&) { return show_gpus(*options); };
  });

  CLI::App* pick_command = command->add_subcommand(
      "pick", "print a mask for CUDA_VISIBLE_DEVICES, of one GPU unless more are asked for; takes nothing");
  auto pick_options = std::make_shared<PickOptions>();
  pick_options->inventory = add_inventory_option(*pick_command);
  pick_options->selection = add_selection_options(*pick_command);
  pick_command->add_flag("--share", pick_options->share, "also GPUs that others have leased or compute on");
  pick_command->add_flag("--json", pick_options->json, "as JSON");
  pick_command->callback([&action, options, pick_options] {
    action.run = [options, pick_options](const Tail&) {
      if (!pick_options->inventory->file) pick_options->inventory = options->inventory;
      return pick(*pick_options);
    };
  });

  CLI::App* await_command = command->add_subcommand("await-memory", "until memory is free again");
  await_command->group("");  // not meant to be typed
  auto before = std::make_shared<std::vector<std::string>>();
  auto within = std::make_shared<std::string>("30s");
  await_command->add_option("USED_BEFORE", *before, "GPU-1234=BYTES, for each GPU")->required();
  await_command->add_option("--within", *within);
  await_command->callback([&action, before, within] {
    action.run = [before, within](const Tail&) { return await_memory(*before, *within); };
  });

  CLI::App* hold_command = command->add_subcommand(
      "hold", "lease GPUs (one unless more are asked for), mask them and run a command on them: hold -n 2 -- CMD");
  auto hold_options = std::make_shared<HoldOptions>();
  hold_options->inventory = add_inventory_option(*hold_command);
  hold_options->selection = add_selection_options(*hold_command);
  hold_options->lease = add_lease_options(*hold_command);
  hold_command->allow_extras();  // a command without -- before it gets its own answer
  hold_command->callback([&action, options, hold_options, hold_command] {
    action.takes_tail = true;
    if (!hold_command->remaining().empty()) {
      action.run = [](const Tail&) {
        return report({Error::Kind::bad_input, "muster gpus hold does not know where its own options end",
                       "put -- before the command: muster gpus hold -n 2 -- python train.py"});
      };
      return;
    }
    action.run = [options, hold_options](const Tail& tail) {
      if (!hold_options->inventory->file) hold_options->inventory = options->inventory;
      return hold(*hold_options, tail.words);
    };
  });
}

}  // namespace muster::cli
