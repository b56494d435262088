#include "environment_server/server.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "base/count_of.hpp"
#include "base/text.hpp"
#include "environment_server/service.hpp"
#include "json/fields.hpp"

namespace muster::environment_server {
namespace {

// Between the signal and the end of requests that are under way.
constexpr auto patience_at_the_end = std::chrono::seconds(5);

std::string address_of(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

void tell(const wire::ServeTask& task, int port) {
  std::vector<std::string> names;
  for (const wire::ServedEnvironment& served : task.environments)
    names.emplace_back(environment::name_of(served.options.kind));
  const std::string address = address_of(task.host, port);
  if (task.json)
    fmt::print("{}\n", Json{{"address", address},
                            {"host", task.host},
                            {"port", port},
                            {"environments", names},
                            {"token", !task.token.empty()},
                            {"pid", ::getpid()}}
                           .dump());
  else
    fmt::print("{} at {}{}; Ctrl-C ends it\n", join(names, ", "), address,
               task.token.empty() ? ", for every program of this machine (no token)" : ", for those with the token");
  std::fflush(stdout);
}

// The signal that ended it. What sessions hold that nobody steps is given back meanwhile.
int wait_for_signal(HostedEnvironments& environments) {
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  const timespec while_waiting{1, 0};
  while (true) {
    if (const int number = ::sigtimedwait(&ends, nullptr, &while_waiting); number > 0) return number;
    environments.sessions().remove_expired();
  }
}

// A step that does not end is not waited for: what it runs dies with this process.
void end_anyway(const std::stop_token& stop, int signal) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  if (!never.wait_for(lock, stop, 2 * patience_at_the_end, [] { return false; }) && !stop.stop_requested())
    ::_exit(128 + signal);
}

}  // namespace

Result<int> serve(const wire::ServeTask& task) {
  auto environments = HostedEnvironments::make(task);
  if (!environments) return environments.error();
  EnvironmentService service(**environments, task.token);
  grpc::ServerBuilder builder;
  int port = 0;
  const auto most = static_cast<int>(task.most_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // else a second server would take every other client
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  builder.AddListeningPort(address_of(task.host, static_cast<int>(task.port)), grpc::InsecureServerCredentials(),
                           &port);
  builder.SetMaxReceiveMessageSize(most);
  builder.SetMaxSendMessageSize(most);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || port == 0)
    return Error{
        Error::Kind::refused,
        fmt::format("cannot listen at {}: the port may be taken", address_of(task.host, static_cast<int>(task.port))),
        "give another one: -p PORT, or -p 0 for a free one"};
  tell(task, port);
  const int signal = wait_for_signal(**environments);
  const std::jthread impatience([signal](const std::stop_token& stop) { end_anyway(stop, signal); });
  server->Shutdown(std::chrono::system_clock::now() + patience_at_the_end);
  return signal;
}

}  // namespace muster::environment_server
