// muster-environments: environments over gRPC, which no other program of muster speaks. Started by muster
// serve-environments, and by whatever has environment.server set; never by hand.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <iostream>
#include <iterator>

#include "base/text.hpp"
#include "environment/server_client.hpp"
#include "environment_server/client.hpp"
#include "environment_server/server.hpp"
#include "json/fields.hpp"

namespace {

using namespace muster;

int report(const Error& error) {
  fmt::print(stderr, "muster serve-environments: {}\n", to_string(error));
  return exit_code(error.kind);
}

// The task is on the standard input. Threads that begin later have these signals blocked as well: the main one waits
// for them.
int serve() {
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const auto task = parse_fields<wire::ServeTask>(text, "the task");
  if (!task) return report(task.error());
  const auto signal = environment_server::serve(*task);
  return signal ? 128 + *signal : report(signal.error());
}

// SERVER ENVIRONMENT SECONDS [TOKEN_FILE]
int ask(int count, char** words) {
  environment_server::ClientOptions options{words[0], words[1]};
  options.patience = std::chrono::milliseconds(std::llround(1000 * parse_number<double>(words[2]).value_or(60)));
  auto token = environment::read_token(count > 3 ? std::optional<std::string>(words[3]) : std::nullopt);
  if (!token) return report(token.error());
  options.token = std::move(*token);
  environment_server::answer_lines(options);
  std::fflush(nullptr);
  ::_exit(0);  // what is still under way interests nobody
}

}  // namespace

int main(int count, char** words) {
  const std::string_view verb = count > 1 ? words[1] : "";
  if (verb == "serve" && count == 2) return serve();
  if (verb == "ask" && (count == 5 || count == 6)) return ask(count - 2, words + 2);
  fmt::print(stderr, "muster-environments is started by muster\ntry: muster serve-environments --help\n");
  return 2;
}
