// muster queue, logs, stop, wait: looking at queued jobs, and ending them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/count_of.hpp"
#include "base/duration.hpp"
#include "base/one_line.hpp"
#include "base/shell_word.hpp"
#include "cli/called_as.hpp"
#include "cli/command.hpp"
#include "cli/status_line.hpp"
#include "cli/terminal.hpp"
#include "service/queue.hpp"

namespace muster::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds worth_telling(2000);

struct JobOptions {
  std::vector<std::string> ids;
  bool json = false;
  bool all = false;
  bool follow = false;
  std::string older;
};

// Calls what with the queue and the named jobs.
template <class What>
int with_jobs(const JobOptions& options, const What& what) {
  const auto ids = service::read_job_ids(options.ids);
  if (!ids) return report(ids.error());
  auto queue = service::Queue::open(host::sources_from_environment());
  if (!queue) return report(queue.error());
  queue->on_note([](const std::string& text) { note(text); });
  return what(*queue, *ids);
}

// The same for a command about one job.
template <class What>
int with_job(const JobOptions& options, const What& what) {
  return with_jobs(options, [&](service::Queue& queue, const service::JobIds& ids) {
    if (ids.size() == 1) return what(queue, ids.front());
    return report({Error::Kind::bad_input,
                   fmt::format("{} are {} jobs, and one is expected", options.ids.front(), ids.size()),
                   "name one: " + ids.front().text});
  });
}

std::string spoken_end(const schedule::JobRecord& record) {
  constexpr std::size_t longest_reason = 400;
  std::string text = fmt::format("job {} {}", record.job.id.text, name(record.state));
  if (!record.reason.empty() && record.reason != name(record.state))
    text += fmt::format(": {}", on_one_line(record.reason, longest_reason));
  return text;
}

int print_json(const Result<std::string>& text) {
  if (!text) return report(text.error());
  show_json(*text + (text->ends_with('\n') ? "" : "\n"));
  return 0;
}

int print(const Result<std::string>& text) {
  if (!text) return report(text.error());
  cli::show(*text + (text->ends_with('\n') ? "" : "\n"));
  return 0;
}

int show_jobs(const JobOptions& options) {
  constexpr std::size_t settled_shown = 10;
  return with_jobs(options, [&](service::Queue& queue, const service::JobIds&) {
    if (options.json) return print_json(queue.json(options.all));
    return print(queue.table(options.all ? std::nullopt : std::optional(settled_shown), output_has_colour()));
  });
}

int why(const JobOptions& options) {
  return with_job(options, [](service::Queue& queue, const schedule::JobId& id) { return print(queue.why(id)); });
}

int repair(const JobOptions& options) {
  return with_jobs(options, [](service::Queue& queue, const service::JobIds&) { return print(queue.repair()); });
}

int forget(const JobOptions& options) {
  const auto span = parse_duration(options.older);
  if (!span) return report({span.error().kind, "--older: " + span.error().what, "write 30d, 12h or 0s"});
  return with_jobs(options, [&](service::Queue& queue, const service::JobIds&) {
    const auto count = queue.forget(*span);
    if (!count) return report(count.error());
    fmt::print("{} forgotten\n", count_of(*count, "job"));
    return 0;
  });
}

int logs(const JobOptions& options) {
  return with_job(options, [&](service::Queue& queue, const schedule::JobId& id) {
    const auto write = [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    };
    const Clock::time_point begun = Clock::now();
    bool is_told = false;
    const auto not_begun = [&] {
      if (is_told || Clock::now() - begun < worth_telling) return;
      is_told = true;
      note(fmt::format("job {} has not begun; {} queue why {} says what it waits for", id.text,
                       shell_word(called_as()), id.text));
    };
    const auto done = queue.logs(id, options.follow, write, not_begun);
    return done ? 0 : report(done.error());
  });
}

int stop(const JobOptions& options) {
  return with_jobs(options, [](service::Queue& queue, const service::JobIds& ids) {
    const auto done = queue.stop(
        ids, [](const schedule::JobRecord& record) { note(spoken_end(record) + ", before it was to be stopped"); });
    return done ? 0 : report(done.error());
  });
}

// How many of the awaited jobs are left, on a terminal.
class WaitLine {
 public:
  explicit WaitLine(std::size_t jobs) : jobs_(jobs) {}

  void tell(const std::string& text) {
    line_.clear();
    note(text);
  }
  void settled(const schedule::JobRecord& record) {
    ++ended_;
    if (record.state != schedule::JobState::succeeded) tell(spoken_end(record));
  }
  void show(const schedule::Scheduler& scheduler) {
    const Clock::time_point now = Clock::now();
    if (!line_.visible() || now - last_ < between_counts) return;
    last_ = now;
    const auto running = std::ranges::count_if(
        scheduler.jobs().all(), [](const schedule::JobRecord& record) { return has_gpus(record.state); });
    const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(now - begun_);
    line_.show(
        fmt::format("{} of {} ended after {}; {} running in the queue", ended_, jobs_, to_string(elapsed), running),
        elapsed);
  }

 private:
  static constexpr std::chrono::milliseconds between_counts{500};
  std::size_t jobs_, ended_ = 0;
  StatusLine line_;
  Clock::time_point begun_ = Clock::now(), last_{};
};

int wait(const JobOptions& options) {
  return with_jobs(options, [](service::Queue& queue, service::JobIds ids) {
    if (ids.empty()) {
      auto open = queue.open_jobs();
      if (!open) return report(open.error());
      ids = std::move(*open);
    }
    std::ranges::sort(ids);
    ids.erase(std::ranges::unique(ids).begin(), ids.end());
    WaitLine line(ids.size());
    queue.on_note([&line](const std::string& text) { line.tell(text); });
    const auto status = queue.wait(
        ids, [&](const schedule::JobRecord& record) { line.settled(record); },
        [&](const schedule::Scheduler& scheduler) {
          line.show(scheduler);
          return true;
        });
    return status ? *status : report(status.error());
  });
}

CLI::Option* add_ids(CLI::App& command, JobOptions& options) {
  return command.add_option("ID", options.ids, "jobs: 7, or 7-12")->delimiter(',');
}

}  // namespace

void add_queue_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("queue", "list the jobs that run, that wait, and that ended last");
  auto options = std::make_shared<JobOptions>();
  command->add_flag("--json", options->json, "jobs and GPUs, for programs; of jobs that ended, the last 300");
  command->add_flag("--all", options->all, "every job that is not forgotten");
  command->require_subcommand(0, 1);
  CLI::App* why_command = command->add_subcommand("why", "say exactly what a job waits for, and when it can begin");
  add_ids(*why_command, *options)->description("a job: 7")->required()->expected(1);
  CLI::App* forget_command = command->add_subcommand(
      "forget", "remove jobs that ended long ago, with their logs and all that is kept of them");
  forget_command->add_option("--older", options->older, "those that ended so long ago: 30d, 12h; 0s: all that ended")
      ->required();
  CLI::App* repair_command = command->add_subcommand(
      "repair", "resume from what is left of a damaged journal; nothing that began is run again");
  CLI::App* conduct_command = command->add_subcommand("conduct", "what the other commands start in the background");
  conduct_command->group("");  // not meant to be typed
  command->callback([&action, options, why_command, forget_command, repair_command, conduct_command] {
    action.run = [options, why_command, forget_command, repair_command, conduct_command](const Tail&) {
      if (conduct_command->parsed()) return service::conduct_queue(host::sources_from_environment());
      if (why_command->parsed()) return why(*options);
      if (repair_command->parsed()) return repair(*options);
      return forget_command->parsed() ? forget(*options) : show_jobs(*options);
    };
  });
}

void add_logs_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("logs", "print what a job wrote");
  auto options = std::make_shared<JobOptions>();
  add_ids(*command, *options)->description("a job: 7")->required()->expected(1);
  command->add_flag("-f,--follow", options->follow, "follow until the job has ended");
  command->callback([&action, options] { action.run = [options](const Tail&) { return logs(*options); }; });
}

void add_stop_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("stop", "end jobs, or take them out of the queue");
  auto options = std::make_shared<JobOptions>();
  add_ids(*command, *options)->required();
  command->callback([&action, options] { action.run = [options](const Tail&) { return stop(*options); }; });
}

void add_wait_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "wait", "wait until jobs have ended; exits as the one job did, or with 0 when all succeeded, else 1");
  auto options = std::make_shared<JobOptions>();
  add_ids(*command, *options)->description("jobs: 7, or 7-12; all that are open when none is named");
  command->callback([&action, options] { action.run = [options](const Tail&) { return wait(*options); }; });
}

}  // namespace muster::cli
