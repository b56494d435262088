// muster-worker: one rank of one job. Started by muster through its launch layer, never by hand.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "communicate/place.hpp"
#include "wire/control_server.hpp"
#include "wire/worker_channel.hpp"
#include "worker/cpu_isa_cap.hpp"
#include "worker/run_worker.hpp"

namespace {

// At once: threads that wait for other ranks, or compute, are not waited for, and LibTorch does not take its tables of operators
// apart, which takes as long as much of its start.
[[noreturn]] void end(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

// The disk behind standard error may be full.
void say(const std::string& text) {
  const std::string line = fmt::format("muster-worker: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int report(const muster::Error& error) {
  say(to_string(error));
  return exit_code(error.kind);
}

int run(const char* address) {
  using namespace muster;
  const auto place = communicate::read_place();
  if (!place) return report(place.error());
  wire::Hello hello;
  hello.pid = ::getpid();
  hello.program = "muster-worker " MUSTER_VERSION;
  hello.processor_limit = worker::avoid_trapping_instructions();
  auto channel = wire::WorkerChannel::join(address, place->rank, hello);
  if (!channel) return report(channel.error());
  channel->listen([](const std::string& reason) {
    say("the controlling program is gone: " + reason);
    end(1);
  });
  const int code = worker::run_worker(*channel, *place);
  if (code != 0) end(code);
  return 0;
}

}  // namespace

int main(int count, char**) {
  const char* address = std::getenv(muster::wire::control_variable);
  if (address == nullptr || count > 1) {
    fmt::print(stderr,
               "muster-worker {} is one rank of a job: muster starts it, and it takes no arguments\n"
               "try: muster --help\n",
               MUSTER_VERSION);
    return 2;
  }
  end(run(address));
}
