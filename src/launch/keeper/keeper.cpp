#include "launch/keeper/keeper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "system/files.hpp"
#include "system/process.hpp"
#include "system/process_handle.hpp"
#include "system/signals.hpp"
#include "launch/keeper/orphans.hpp"
#include "launch/keeper/keeper_connection.hpp"
#include "launch/keeper/keeper_process.hpp"
#include "launch/keeper/keeper_protocol.hpp"

namespace muster::launch {
namespace {

// What a killed process is given to disappear; one that hangs in the kernel is left to it.
constexpr std::chrono::seconds patience_after_kill(5);

Error cannot(std::string_view action) {
  return {Error::Kind::failed, fmt::format("cannot {}: {}", action, system_reason()),
          "look at the limits on processes and open files: ulimit -u, ulimit -n"};
}

}  // namespace

struct Keeper::State {
  State(KeeperConnection ours, pid_t pid, FileDescriptor keeper)
      : connection(std::move(ours)), handle(std::move(keeper)), identity{pid, 0} {
    if (const auto status = read_process_status(pid)) identity = status->identity;
    sessions.insert(pid);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (lost) return;
    connection.close();
    signal_process(handle, SIGCONT);
    wait_for_keeper();
  }

  // Reaps it, and kills what it may have left. It leaves nothing when it ends by itself.
  void wait_for_keeper() {
    const auto deadline = std::chrono::steady_clock::now() + patience_after_kill;
    if (!wait_for_end(handle, deadline)) return;
    int status = 0;
    const bool reaped = ::waitpid(identity.pid, &status, 0) == identity.pid;
    if (!reaped || !WIFEXITED(status)) kill_orphans(identity, sessions, deadline);
  }

  void lose_keeper() {
    lost = true;
    signal_process(handle, SIGKILL);
    wait_for_keeper();
  }

  KeeperConnection connection;
  FileDescriptor handle;
  ProcessIdentity identity;
  std::set<pid_t> sessions;  // of the keeper and of every rank that was started
  bool lost = false;
};

Keeper::Keeper(std::unique_ptr<State> state) : state_(std::move(state)) {}
Keeper::Keeper(Keeper&& other) noexcept = default;
Keeper& Keeper::operator=(Keeper&& other) noexcept = default;
Keeper::~Keeper() = default;

Result<Keeper> Keeper::start(ControlGroups groups) {
  auto ends = KeeperConnection::open_pair();
  if (!ends) return ends.error();
  FileDescriptor launcher = above_standard_streams(open_process(::getpid()));
  if (!launcher) return cannot("watch this process");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  pid_t pid = -1;
  {
    const BlockedSignals blocked;
    pid = ::fork();
    if (pid == 0) {
      ends->first.close();
      [&]() noexcept { KeeperProcess(std::move(ends->second), std::move(launcher), groups).run(); }();
      ::_exit(0);
    }
  }
  if (pid < 0) return cannot("start a process");
  FileDescriptor handle = open_process(pid);
  if (!handle) {
    const Error error = cannot("watch a process");
    ends->first.close();
    ends->second.close();
    ::waitpid(pid, nullptr, 0);  // alone, it ends
    return error;
  }
  return Keeper(std::make_unique<State>(std::move(ends->first), pid, std::move(handle)));
}

pid_t Keeper::pid() const { return state_->identity.pid; }
int Keeper::descriptor() const { return state_->connection.descriptor(); }

Result<void> Keeper::start_workers(const std::vector<WorkerCommand>& workers) {
  for (std::size_t i = 0; i < workers.size(); ++i)
    state_->connection.queue(encode(workers[i], static_cast<int>(i)), {workers[i].output, workers[i].errors});
  return state_->connection.send_all();
}

void Keeper::signal_workers(int signal) {
  state_->connection.queue(encode(SignalWorkers{std::nullopt, signal}));
  static_cast<void>(state_->connection.send_all());  // where it fails the keeper is lost, which receive() tells
}

void Keeper::signal_worker(int local_rank, int signal) {
  state_->connection.queue(encode(SignalWorkers{local_rank, signal}));
  static_cast<void>(state_->connection.send_all());
}

void Keeper::end_all(std::chrono::milliseconds grace) {
  state_->connection.queue(encode(EndAll{grace}));
  static_cast<void>(state_->connection.send_all());
}

std::vector<KeeperEvent> Keeper::receive() {
  std::vector<KeeperEvent> events;
  if (state_->lost) return events;
  for (const ReceivedMessage& message : state_->connection.receive()) {
    events.push_back(decode_event(message));
    if (const auto* started = std::get_if<WorkerStarted>(&events.back())) state_->sessions.insert(started->pid);
  }
  if (state_->connection.ended()) {
    state_->lose_keeper();
    events.emplace_back(KeeperLost{});
  }
  return events;
}

}  // namespace muster::launch
