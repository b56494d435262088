// muster serve-environments: environments for other programs, over gRPC.
#include <CLI/CLI.hpp>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "job/serve/serve_environments.hpp"

namespace muster::cli {
namespace {

struct ServeCommand {
  job::ServeRequest request;
  std::string environments;
  std::string session_timeout = "10m";
  std::string most_message = "16MiB";
  bool dry_run = false;
};

int run_serve_environments(const ServeCommand& given) {
  job::ServeRequest request = given.request;
  const auto timeout = parse_duration(given.session_timeout);
  if (!timeout) return report(timeout.error());
  const auto most = parse_byte_count(given.most_message);
  if (!most) return report(most.error());
  if (most->value < 1024 || *most > gibibytes(1))
    return report(bad_input("--message-limit is " + given.most_message, "between 1KiB and 1GiB"));
  if (timeout->count() < 1)
    return report(bad_input("--session-timeout is " + given.session_timeout, "a time above 0, as in 10m"));
  for (const std::string& name : split(given.environments, ',')) request.environments.emplace_back(trim(name));
  request.session_timeout = *timeout;
  request.most_message = *most;
  const auto task = job::plan_serving(request);
  if (!task) return report(task.error());
  if (given.dry_run) {
    show(job::serving_text(*task) + "\n");
    return 0;
  }
  return report(job::serve(*task));
}

}  // namespace

void add_serve_environments_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("serve-environments",
                                             "let programs of this machine, or of others, step environments over gRPC");
  auto given = std::make_shared<ServeCommand>();
  job::ServeRequest& request = given->request;
  command
      ->add_option("-e,--environments", given->environments,
                   "some of code, math, tool, debate and program, with commas")
      ->required();
  command
      ->add_option("--data", request.data,
                   "NAME=FILE: rows that episodes of NAME begin with; FILE alone where there is one environment")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--host", request.host, "address to listen at; one that other machines reach needs a token")
      ->capture_default_str();
  command->add_option("-p,--port", request.port, "0: a free one")->check(CLI::Range(0, 65535))->capture_default_str();
  command->add_option("--token-file", request.token_file,
                      "file with the token that clients must have, mode 0600; not set: MUSTER_ENVIRONMENT_TOKEN");
  command->add_option("--session-timeout", given->session_timeout, "how long a session is kept that nobody steps")
      ->capture_default_str();
  command->add_option("--sessions", request.most_sessions, "how many may be open at a time")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--message-limit", given->most_message, "longer messages are refused")->capture_default_str();
  command->add_flag("--json", request.json, "where it listens, for programs: the first line");
  command->add_flag("--dry-run", given->dry_run, "check everything, show what would be served, and stop");
  command->add_option("-c,--config", request.configuration.file,
                      "YAML or JSON file with settings (also MUSTER_CONFIG)");
  command->add_option("SETTINGS", request.configuration.settings,
                      "settings as section.key=value, as in environment.max_attempts=2");
  command->callback([&action, given] { action.run = [given](const Tail&) { return run_serve_environments(*given); }; });
}

}  // namespace muster::cli
