// muster submit: commands into the queue.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <iterator>

#include "base/duration.hpp"
#include "cli/command.hpp"
#include "service/queue.hpp"

namespace muster::cli {
namespace {

struct SubmitOptions {
  std::string gpus = "1";
  std::vector<std::string> after, after_ok;
  std::string label;
  std::optional<std::string> timeout, heartbeat, expect;
  int priority = 0;
  int retries = 0;
  bool no_grid = false;
  std::shared_ptr<InventoryOption> inventory;
};

Result<void> read_span(const char* option, const std::optional<std::string>& text,
                       std::optional<schedule::Duration>& span) {
  if (!text) return {};
  const auto read = parse_duration(*text);
  if (!read) return Error{read.error().kind, fmt::format("{}: {}", option, read.error().what), read.error().remedy};
  if (*read <= schedule::Duration::zero() || *read > schedule::longest_span)
    return Error{Error::Kind::bad_input,
                 fmt::format("{} is {}: more than nothing and at most ten years are accepted", option, *text),
                 fmt::format("{} 30m", option)};
  span = *read;
  return {};
}

Result<int> read_gpus(const std::string& text) {
  int count = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (failure == std::errc() && end == text.data() + text.size() && count >= 0 && count <= schedule::most_gpus)
    return count;
  return Error{Error::Kind::bad_input,
               fmt::format("-n is {}: a number from 0 to {}, or plan, is accepted", text, schedule::most_gpus), "-n 1"};
}

Result<service::SubmitRequest> read_submit_request(const SubmitOptions& options, const Tail& tail) {
  service::SubmitRequest request;
  request.by_plan = options.gpus == "plan";
  if (!request.by_plan) {
    const auto gpus = read_gpus(options.gpus);
    if (!gpus) return gpus.error();
    request.job.gpus = schedule::GpuRequest::exactly(*gpus);
  }
  request.job.label = options.label;
  request.job.priority = options.priority;
  request.job.retries = options.retries;
  if (auto read = read_span("--timeout", options.timeout, request.job.timeout); !read) return read.error();
  if (auto read = read_span("--heartbeat", options.heartbeat, request.job.heartbeat); !read) return read.error();
  if (auto read = read_span("--expect", options.expect, request.job.prediction); !read) return read.error();
  auto after = service::read_job_ids(options.after);
  if (!after) return Error{after.error().kind, "--after: " + after.error().what, after.error().remedy};
  auto after_ok = service::read_job_ids(options.after_ok);
  if (!after_ok) return Error{after_ok.error().kind, "--after-ok: " + after_ok.error().what, after_ok.error().remedy};
  request.job.after = std::move(*after);
  request.job.after_ok = std::move(*after_ok);
  if (tail.separated) {
    if (tail.words.empty()) return Error{Error::Kind::bad_input, "nothing follows --", "muster submit -- COMMAND"};
    request.commands = {tail.words};
    return request;
  }
  if (::isatty(STDIN_FILENO) != 0)
    return Error{Error::Kind::bad_input, "there is no command", "muster submit -- COMMAND, or muster submit < FILE"};
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  auto commands = service::commands_of_lines(text, !options.no_grid);
  if (!commands) return commands.error();
  if (commands->empty())
    return Error{Error::Kind::bad_input, "there is no command on standard input", "muster submit -- COMMAND"};
  request.commands = std::move(*commands);
  return request;
}

int submit(const SubmitOptions& options, const Tail& tail) {
  const auto request = read_submit_request(options, tail);
  if (!request) return report(request.error());
  host::HostSources sources = host::sources_from_environment();
  if (options.inventory->file) sources.inventory_file = *options.inventory->file;
  auto queue = service::Queue::open(std::move(sources));
  if (!queue) return report(queue.error());
  queue->on_note([](const std::string& text) { note(text); });
  const auto ids = queue->submit(*request);
  if (!ids) return report(ids.error());
  for (const schedule::JobId& id : *ids) fmt::print("{}\n", id.text);
  return 0;
}

}  // namespace

void add_submit_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "submit", "queue a command (after --), or every line of standard input; prints the ids of the jobs");
  auto options = std::make_shared<SubmitOptions>();
  command
      ->add_option("-n,--gpus", options->gpus,
                   "GPUs of each job; 0: none; plan: the fewest with which a muster command's plan fits")
      ->capture_default_str();
  command->add_option("--after", options->after, "begin when these jobs have ended, however they did")->delimiter(',');
  command->add_option("--after-ok", options->after_ok, "begin when these jobs have succeeded; skipped when one fails")
      ->delimiter(',');
  command->add_option("--label", options->label, "shown by muster queue; jobs of one label tell how long others take");
  command->add_option("--priority", options->priority, "higher goes first")
      ->capture_default_str()
      ->check(CLI::Range(schedule::lowest_priority, schedule::highest_priority));
  command->add_option("--retries", options->retries, "further attempts after a failure")
      ->capture_default_str()
      ->check(CLI::Range(0, schedule::most_retries));
  command->add_option("--timeout", options->timeout, "longest time of an attempt: 30s, 5m, 2h");
  command->add_option(
      "--heartbeat", options->heartbeat,
      "longest silence; a job that neither wrote nor touched $MUSTER_HEARTBEAT_FILE for longer is stopped "
      "and counts as failed");
  command->add_option("--expect", options->expect,
                      "how long an attempt takes: lets shorter jobs backfill");
  command->add_flag("--no-grid", options->no_grid, "leave {a,b} and {1..3} in lines of standard input as they are");
  options->inventory = add_inventory_option(*command);
  command->callback([&action, options] {
    action.takes_tail = true;
    action.run = [options](const Tail& tail) { return submit(*options, tail); };
  });
}

}  // namespace muster::cli
