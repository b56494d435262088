#include "job/serve/serve_environments.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/count_of.hpp"
#include "base/duration.hpp"
#include "base/text.hpp"
#include "data/row_questions.hpp"
#include "environment/environment.hpp"
#include "environment/server_client.hpp"
#include "json/fields.hpp"
#include "system/exec_arguments.hpp"
#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "system/socket.hpp"

namespace muster::job {
namespace {

using spec::EnvironmentKind;

constexpr std::size_t most_rows_told = 10;

Result<std::vector<EnvironmentKind>> kinds_of(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const auto& word : spec::words(EnvironmentKind{})) known.emplace_back(word.text);
  std::vector<EnvironmentKind> kinds;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end())
      return bad_input(fmt::format("there is no environment \"{}\"", name),
                       fmt::format("-e with some of {}", join(known, ",")));
    kinds.push_back(spec::words(EnvironmentKind{})[static_cast<std::size_t>(found - known.begin())].value);
    if (std::ranges::count(kinds, kinds.back()) > 1)
      return bad_input(fmt::format("-e names {} twice", name), "name each environment once");
  }
  return kinds;
}

// The file of each.
Result<std::map<EnvironmentKind, std::string>> files_of(const std::vector<std::string>& data,
                                                        const std::vector<EnvironmentKind>& kinds) {
  std::map<EnvironmentKind, std::string> files;
  for (const std::string& word : data) {
    const auto named = std::ranges::find_if(
        kinds, [&](EnvironmentKind kind) { return word.starts_with(std::string(environment::name_of(kind)) + "="); });
    if (named == kinds.end() && kinds.size() > 1)
      return bad_input(fmt::format("--data {} names none of the environments that are served", word),
                       fmt::format("--data {}=FILE, and so on for each", environment::name_of(kinds.front())));
    const EnvironmentKind kind = named == kinds.end() ? kinds.front() : *named;
    const std::string file = named == kinds.end() ? word : word.substr(word.find('=') + 1);
    if (!files.emplace(kind, file).second)
      return bad_input(fmt::format("--data names two files for {}", environment::name_of(kind)),
                       "put them into one folder, and name that");
  }
  return files;
}

// Settings that are another served environment's alone are left to that.
Result<spec::RunSpec> settings_of(planning::GivenConfiguration configuration, EnvironmentKind kind,
                                  const std::vector<EnvironmentKind>& served) {
  std::erase_if(configuration.settings, [&](const std::string& setting) {
    const std::string key = setting.substr(0, setting.find('='));
    return spec::is_setting_of_environments(key) && !spec::is_setting_of(kind, key) &&
           std::ranges::any_of(served, [&](EnvironmentKind other) { return spec::is_setting_of(other, key); });
  });
  configuration.overrides.push_back({"environment.type", std::string(environment::name_of(kind)), "--environments"});
  configuration.command = spec::Command::serve_environments;
  const auto resolved = planning::resolve_configuration(spec::Schema(), configuration);
  if (!resolved) return resolved.error();
  return resolved->spec;
}

// Each begins an episode here once, so that no client finds one that does not.
Result<std::vector<std::string>> rows_to_serve(const std::string& file, const spec::EnvironmentOptions& options,
                                               std::uint64_t seed) {
  const auto environment = environment::make_environment(options);
  if (!environment) return environment.error();
  auto read = data::whole_rows(file);
  if (!read) return read.error();
  std::vector<std::string> rows;
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < read->size() && problems.size() < most_rows_told; ++i) {
    data::RowPrompt& row = (*read)[i];
    if (const auto session = (*environment)->reset(row.row, environment::seed_of_row(seed, i)); !session)
      problems.push_back({row.where, session.error().what, session.error().remedy});
    rows.push_back(std::move(row.row));
  }
  if (!problems.empty()) return to_error(problems);
  return rows;
}

Result<std::string> address_to_serve_at(const std::string& host, bool has_token) {
  const auto endpoint = parse_endpoint(host);
  if (!endpoint) return endpoint.error();
  const auto addresses = resolve(endpoint->host, 0);
  if (!addresses) return addresses.error();
  const SocketAddress& first = addresses->front();
  if (!first.is_loopback() && !has_token)
    return bad_input(
        fmt::format("--host {} can be reached from other machines, and there is no token", host),
        fmt::format("--token-file FILE, or {}; or leave --host out: this machine's programs alone reach it then",
                    environment::token_variable));
  return first.host();
}

}  // namespace

Result<wire::ServeTask> plan_serving(const ServeRequest& request) {
  if (const auto program = environment::find_environments_program(); !program) return program.error();
  const auto kinds = kinds_of(request.environments);
  if (!kinds) return kinds.error();
  const auto files = files_of(request.data, *kinds);
  if (!files) return files.error();
  wire::ServeTask task;
  auto token = environment::read_token(request.token_file);
  if (!token) return token.error();
  task.token = std::move(*token);
  auto host = address_to_serve_at(request.host, !task.token.empty());
  if (!host) return host.error();
  task.host = std::move(*host);
  for (const EnvironmentKind kind : *kinds) {
    const auto settings = settings_of(request.configuration, kind, *kinds);
    if (!settings) return settings.error();
    task.seed = settings->experiment.seed;
    wire::ServedEnvironment& served = task.environments.emplace_back();
    served.options = *settings->environment_options();
    if (const auto file = files->find(kind); file != files->end()) {
      auto rows = rows_to_serve(file->second, served.options, static_cast<std::uint64_t>(task.seed));
      if (!rows) return rows.error();
      served.rows = std::move(*rows);
    } else if (auto made = environment::make_environment(served.options); !made) {
      return made.error();
    }
  }
  task.port = request.port;
  task.session_timeout = request.session_timeout;
  task.most_sessions = request.most_sessions;
  task.most_message_bytes = request.most_message.value;
  task.json = request.json;
  return task;
}

std::string serving_text(const wire::ServeTask& task) {
  std::vector<std::string> served;
  for (const wire::ServedEnvironment& one : task.environments)
    served.push_back(fmt::format("{} ({})", environment::name_of(one.options.kind),
                                 one.rows.empty() ? "clients bring the rows" : count_of(std::ssize(one.rows), "row")));
  const Endpoint at{task.host, task.port > 0 ? std::optional(static_cast<std::uint16_t>(task.port)) : std::nullopt};
  return fmt::format("{}\nat {}{}, for {}\nup to {} at a time, each kept for {} without a step", join(served, ", "),
                     to_string(at), task.port > 0 ? "" : " at a free port",
                     task.token.empty() ? "every program of this machine" : "those with the token",
                     count_of(task.most_sessions, "session"), to_string(task.session_timeout));
}

Error serve(const wire::ServeTask& task) {
  const auto program = environment::find_environments_program();
  if (!program) return program.error();
  const FileDescriptor input(::memfd_create("muster-serve", MFD_CLOEXEC));
  const std::string text = print_fields(task);
  std::size_t written = 0;
  while (input && written < text.size()) {
    const ssize_t count = ::write(input.number(), text.data() + written, text.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  if (written < text.size() || ::lseek(input.number(), 0, SEEK_SET) != 0 || ::dup2(input.number(), STDIN_FILENO) < 0)
    return {Error::Kind::failed, "cannot tell muster-environments what to serve: " + system_reason(), ""};
  std::vector<std::string> words{program->string(), "serve"};
  ::execv(program->c_str(), pointers_for_exec(words).data());
  return {Error::Kind::failed, fmt::format("cannot run {}: {}", program->string(), system_reason()),
          "build it again: ./muster serve-environments"};
}

}  // namespace muster::job
