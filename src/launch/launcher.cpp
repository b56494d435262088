#include "launch/launcher.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/clean_text.hpp"
#include "base/duration.hpp"
#include "system/files.hpp"
#include "system/host_name.hpp"
#include "launch/failure.hpp"
#include "launch/keeper/keeper.hpp"
#include "launch/log_pump.hpp"
#include "launch/keeper/oom_kills.hpp"
#include "launch/rank_streams.hpp"
#include "launch/keeper/signal_name.hpp"
#include "launch/supervisor.hpp"
#include "rendezvous/agent_link.hpp"

namespace muster::launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t quoted_lines = 20;
constexpr milliseconds first_word(2000);      // the user hears about a wait that is longer than this
constexpr milliseconds further_words(30000);  // and again after this
constexpr milliseconds gpu_look(50);
constexpr milliseconds connect_slice(200);
constexpr milliseconds between_joins(250);

// The signals a launcher acts upon, as a descriptor; blocked for good, so that every thread leaves them to it.
class SignalInbox {
 public:
  static Result<SignalInbox> open(const SignalRules& rules) {
    sigset_t set;
    ::sigemptyset(&set);
    for (const auto* signals : {&rules.ending, &rules.passing})
      for (const int signal : *signals) ::sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    SignalInbox inbox;
    inbox.descriptor_ = FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!inbox.descriptor_)
      return Error{Error::Kind::failed, fmt::format("cannot receive signals: {}", system_reason()), ""};
    return inbox;
  }
  int descriptor() const { return descriptor_.number(); }
  std::optional<int> next() {
    signalfd_siginfo facts{};
    if (::read(descriptor_.number(), &facts, sizeof facts) != sizeof facts) return std::nullopt;
    return static_cast<int>(facts.ssi_signo);
  }

 private:
  FileDescriptor descriptor_;
};

Result<std::pair<FileDescriptor, FileDescriptor>> socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return Error{Error::Kind::failed, fmt::format("cannot open a pair of sockets: {}", system_reason()), ""};
  return std::pair(FileDescriptor(ends[0]), FileDescriptor(ends[1]));
}

int exit_code_of(const ProcessEnd& end) { return end.signal ? 128 + *end.signal : end.exit_code.value_or(1); }

class Launcher {
 public:
  Launcher(const LaunchRequest& request, const RankResources& resources, BoundRendezvous rendezvous_point, const LaunchHooks& hooks,
           SignalInbox signals, Keeper keeper)
      : request_(request),
        resources_(resources),
        hooks_(hooks),
        meeting_(std::move(rendezvous_point)),
        leads_(meeting_.serves()),
        supervisor_(rules()),
        signals_(std::move(signals)),
        keeper_(std::move(keeper)) {}

  Result<int> run();

 private:
  SupervisionRules rules() const;
  Result<void> open_coordinator();
  Result<void> join();
  Result<FileDescriptor> reach_coordinator();
  Result<bool> has_secret();
  Error no_answer() const;
  Error no_secret() const;
  void pause();
  void wait_for_something();
  milliseconds longest_wait(Clock::time_point now) const;
  void take_signals();
  void take_keeper_events();
  void take_messages();
  void look_at_gpus();
  void look_again();
  bool waits_for_hosts() const { return request_.hosts.maximum > 1 && supervisor_.waits_for_hosts(); }
  void say_what_is_waited_for();

  void carry_out(std::vector<Action> actions);
  Result<void> perform(const Action& action);
  Result<void> start_ranks(const rendezvous::Start& round);
  std::vector<WorkerCommand> worker_commands(const rendezvous::Start& round, const RankStreams& streams) const;
  void tell(const rendezvous::AgentMessage& message);
  void tell_failure(const TellFailure& order);

  WorkerFailure failure_of(const RankExit& exit) const;
  int end();
  int report_failure();
  int code_for(const Leave& leave, const std::optional<WorkerFailure>& cause) const;

  const LaunchRequest& request_;
  const RankResources& resources_;
  const LaunchHooks& hooks_;
  BoundRendezvous meeting_;
  bool leads_;
  std::string secret_;  // of the run; empty where it is insecure
  bool waits_for_secret_ = false;
  Supervisor supervisor_;
  SignalInbox signals_;
  Keeper keeper_;
  std::optional<LogPump> pump_;  // of the current round
  std::optional<Coordinator> coordinator_;
  std::optional<rendezvous::AgentLink> link_;
  std::optional<LogFolder> logs_;
  AttemptLogs attempt_;
  Environment inherited_ = current_environment();
  std::uint64_t oom_kills_before_ = 0;
  std::optional<Clock::time_point> gpus_deadline_;  // while GPUs are waited for
  Clock::time_point looking_since_ = Clock::now();  // for the coordinator; starts again with every round
  std::optional<Clock::time_point> look_again_;     // for a coordinator that is gone or had no place
  Clock::time_point told_ = Clock::now();           // when the user last heard of the waiting
  milliseconds until_told_ = first_word;
  std::optional<Leave> leave_;
  std::optional<Error> failed_;  // the launcher itself cannot continue
};

SupervisionRules Launcher::rules() const {
  SupervisionRules rules;
  rules.local_ranks = request_.local_ranks;
  rules.independent = request_.independent;
  rules.leads = leads_;
  rules.several_hosts = request_.hosts.maximum > 1;
  rules.may_reconnect = !leads_ && (request_.maximum_restarts > 0 || request_.hosts.minimum < request_.hosts.maximum);
  rules.grace = request_.signals.grace;
  rules.grace_after_failure = request_.signals.grace_after_failure;
  rules.job_end = request_.signals.job_end;
  return rules;
}

Result<void> Launcher::open_coordinator() {
  if (!leads_) return {};
  auto secret = make_or_read_secret(request_.secret);
  if (!secret) return secret.error();
  secret_ = std::move(*secret);
  auto coordinator = Coordinator::start(std::move(meeting_.listener), request_, secret_);
  if (!coordinator) return coordinator.error();
  coordinator_ = std::move(*coordinator);
  return {};
}

// Tries for as long as hosts may take to come together, counted from the last round. A signal ends it.
Result<FileDescriptor> Launcher::reach_coordinator() {
  if (coordinator_) {
    auto pair = socket_pair();
    if (!pair) return pair.error();
    coordinator_->adopt(std::move(pair->second));
    return std::move(pair->first);
  }
  const auto deadline = looking_since_ + request_.times.join;
  while (true) {
    auto socket = connect_to(meeting_.addresses, std::min(deadline, Clock::now() + connect_slice));
    // The first host makes the secret as soon as it listens; a shared file system may show it some seconds later.
    const auto ready = socket ? has_secret() : Result<bool>(false);
    if (!ready) return ready.error();
    if (*ready) {
      meeting_.store.address = peer_address(*socket).host();
      return socket;
    }
    waits_for_secret_ = static_cast<bool>(socket);
    take_signals();
    if (leave_) return Error{Error::Kind::failed, "interrupted", ""};
    if (Clock::now() >= deadline) return waits_for_secret_ ? no_secret() : no_answer();
    say_what_is_waited_for();
    if (waits_for_secret_) pause();
  }
}

Result<bool> Launcher::has_secret() {
  auto secret = find_secret(request_.secret);
  if (!secret) return secret.error();
  if (*secret) secret_ = std::move(**secret);
  return secret->has_value();
}

// A moment, or until a signal comes.
void Launcher::pause() {
  pollfd waiting{signals_.descriptor(), POLLIN, 0};
  ::poll(&waiting, 1, static_cast<int>(connect_slice.count()));
}

Error Launcher::no_answer() const {
  return {
      Error::Kind::failed,
      fmt::format("no answer from {} within {}", to_string(request_.rendezvous_point.endpoint), to_string(request_.times.join)),
      "check that the launcher of the leading host has been started, and that no firewall is between"};
}

Error Launcher::no_secret() const {
  return {Error::Kind::failed,
          fmt::format("the secret of the run, {}, did not appear on this host within {}", request_.secret.file.string(),
                      to_string(request_.times.join)),
          "where hosts do not share the folder, copy the file from the leading host, set the same MUSTER_RDZV_SECRET "
          "on every host, or give every host --insecure"};
}

Result<void> Launcher::join() {
  auto socket = reach_coordinator();
  if (!socket) return socket.error();
  rendezvous::Join join;
  join.run_id = request_.run_id;
  join.host = host_name();
  join.pid = ::getpid();
  join.role = request_.role;
  join.local_world_size = request_.local_ranks;
  join.node_rank = request_.rendezvous_point.node_rank;
  join.leads = leads_;
  waits_for_secret_ = false;
  link_.emplace(std::move(*socket), join, secret_, Clock::now());
  return {};
}

Result<int> Launcher::run() {
  if (auto opened = open_coordinator(); !opened) return opened.error();
  if (auto joined = join(); !joined && !leave_) return joined.error();
  while (!leave_ && !failed_) wait_for_something();
  if (failed_) return *failed_;
  return end();
}

milliseconds Launcher::longest_wait(Clock::time_point now) const {
  Clock::time_point wake = now + std::chrono::hours(1);
  if (const auto deadline = supervisor_.next_deadline()) wake = std::min(wake, *deadline);
  if (link_) wake = std::min(wake, link_->next_deadline());
  if (gpus_deadline_) wake = std::min(wake, now + gpu_look);
  if (look_again_) wake = std::min(wake, *look_again_);
  if (waits_for_hosts()) wake = std::min(wake, told_ + until_told_);
  return std::max(std::chrono::ceil<milliseconds>(wake - now), milliseconds(0));
}

void Launcher::wait_for_something() {
  const short link_events = link_ && link_->wants_to_write() ? POLLIN | POLLOUT : POLLIN;
  std::array<pollfd, 3> waiting{pollfd{signals_.descriptor(), POLLIN, 0}, pollfd{keeper_.descriptor(), POLLIN, 0},
                                pollfd{link_ ? link_->descriptor() : -1, link_events, 0}};
  ::poll(waiting.data(), waiting.size(), static_cast<int>(longest_wait(Clock::now()).count()));
  take_keeper_events();
  take_signals();
  take_messages();
  look_at_gpus();
  look_again();
  carry_out(supervisor_.passed(Clock::now()));
  say_what_is_waited_for();
  // Nothing wakes this thread for them, but the heartbeat of its own link does so soon enough.
  if (coordinator_)
    for (const std::string& text : coordinator_->take_notes()) hooks_.note(text);
}

void Launcher::take_signals() {
  while (const auto signal = signals_.next()) {
    if (request_.signals.ending.contains(*signal) && hooks_.interrupted) hooks_.interrupted(*signal);
    if (request_.signals.ending.contains(*signal))
      carry_out(supervisor_.signalled(*signal, std::chrono::system_clock::now(), Clock::now()));
    else
      keeper_.signal_workers(*signal);
  }
}

void Launcher::take_keeper_events() {
  for (const KeeperEvent& event : keeper_.receive()) carry_out(supervisor_.on_event(event, Clock::now()));
}

void Launcher::take_messages() {
  if (!link_) return;
  const auto messages = link_->receive(Clock::now());
  if (!messages) {
    const std::string reason = messages.error().what;
    link_.reset();
    looking_since_ = Clock::now();
    carry_out(supervisor_.link_broken(reason, Clock::now()));
    return;
  }
  for (const auto& message : *messages) carry_out(supervisor_.heard(message, Clock::now()));
}

void Launcher::look_at_gpus() {
  if (!gpus_deadline_) return;
  const bool free = !hooks_.gpus_are_free || hooks_.gpus_are_free();
  if (!free && Clock::now() < *gpus_deadline_) return;
  if (!free)
    hooks_.note(fmt::format("the memory of the GPUs is not free after {}; the next round begins anyway",
                            to_string(hooks_.reclaim)));
  gpus_deadline_.reset();
  carry_out(supervisor_.gpus_ready(Clock::now()));
}

void Launcher::look_again() {
  if (leave_ || !look_again_ || Clock::now() < *look_again_) return;
  look_again_.reset();
  if (Clock::now() >= looking_since_ + request_.times.join) {
    failed_ = Error{Error::Kind::failed,
                    fmt::format("no place in the run at {} within {}", to_string(request_.rendezvous_point.endpoint),
                                to_string(request_.times.join)),
                    "give the run more hosts (--nnodes), or wait until it has ended"};
    return;
  }
  if (auto joined = join(); !joined && !leave_) failed_ = joined.error();
}

void Launcher::say_what_is_waited_for() {
  if (!waits_for_hosts()) {
    told_ = Clock::now();
    until_told_ = first_word;
  }
  if (Clock::now() < told_ + until_told_) return;
  told_ = Clock::now();
  until_told_ = further_words;
  if (waits_for_secret_)
    hooks_.note(fmt::format("waiting for {}, the secret of the run, which the leading host has: where the folder is "
                            "not shared, copy the file, or set the same MUSTER_RDZV_SECRET on every host",
                            request_.secret.file.string()));
  else if (coordinator_)
    hooks_.note("waiting: " + coordinator_->describe());
  else if (link_)
    hooks_.note(fmt::format("waiting for the other hosts ({} leads)", to_string(request_.rendezvous_point.endpoint)));
  else
    hooks_.note(fmt::format("waiting for {} to answer", to_string(request_.rendezvous_point.endpoint)));
}

void Launcher::carry_out(std::vector<Action> actions) {
  for (const Action& action : actions) {
    if (auto done = perform(action); !done && !failed_) failed_ = done.error();
  }
}

Result<void> Launcher::perform(const Action& action) {
  if (std::holds_alternative<AwaitGpus>(action)) {
    gpus_deadline_ = Clock::now() + hooks_.reclaim;
    look_at_gpus();
  } else if (const auto* start = std::get_if<StartRanks>(&action)) {
    return start_ranks(start->round);
  } else if (const auto* signal = std::get_if<SignalRanks>(&action)) {
    keeper_.signal_workers(signal->signal);
  } else if (const auto* all = std::get_if<EndTheRest>(&action)) {
    keeper_.end_all(all->grace);
  } else if (const auto* message = std::get_if<Tell>(&action)) {
    tell(message->message);
  } else if (const auto* failure = std::get_if<TellFailure>(&action)) {
    tell_failure(*failure);
  } else if (const auto* words = std::get_if<Note>(&action)) {
    hooks_.note(words->text);
  } else if (const auto* leave = std::get_if<Leave>(&action)) {
    leave_ = *leave;
  } else if (std::holds_alternative<Reconnect>(action)) {
    link_.reset();
    look_again_ = Clock::now() + between_joins;
  }
  return {};
}

void Launcher::tell(const rendezvous::AgentMessage& message) {
  if (link_) link_->send(message);
}

void Launcher::tell_failure(const TellFailure& order) {
  const RankExit& exit = supervisor_.exits()[order.exit];
  const auto age = std::chrono::duration_cast<milliseconds>(Clock::now() - exit.seen);
  tell(rendezvous::Failed{order.round, age, to_json(failure_of(exit))});
}

Result<void> Launcher::start_ranks(const rendezvous::Start& round) {
  looking_since_ = Clock::now();
  if (!logs_) {
    auto folder = LogFolder::create(request_.logs, request_.run_id);
    if (!folder) return folder.error();
    logs_ = std::move(*folder);
  }
  pump_.reset();
  auto pump = LogPump::start(STDOUT_FILENO, STDERR_FILENO);
  if (!pump) return pump.error();
  pump_ = std::move(*pump);
  auto attempt = logs_->begin_attempt(round.restart_count, request_.local_ranks);
  if (!attempt) return attempt.error();
  attempt_ = std::move(*attempt);
  std::vector<std::string> prefixes;
  for (int local_rank = 0; local_rank < request_.local_ranks; ++local_rank)
    prefixes.push_back(log_prefix(request_.logs.prefix_template.value_or("[${role_name}${local_rank}]:"), request_.role,
                                  round.first_rank + local_rank, local_rank));
  const auto streams = open_rank_streams(attempt_, request_.logs, prefixes, *pump_);
  if (!streams) return streams.error();
  oom_kills_before_ = oom_kills();
  return keeper_.start_workers(worker_commands(round, *streams));
}

std::vector<WorkerCommand> Launcher::worker_commands(const rendezvous::Start& round, const RankStreams& streams) const {
  std::vector<WorkerCommand> workers;
  for (int local_rank = 0; local_rank < request_.local_ranks; ++local_rank) {
    const auto position = static_cast<std::size_t>(local_rank);
    const auto& error_file = attempt_.ranks[position].error_file;
    const Environment environment = worker_environment(inherited_, request_, resources_, round, meeting_.store,
                                                       local_rank, error_file ? error_file->string() : "");
    WorkerCommand worker;
    worker.command = request_.command;
    worker.environment.assign(environment.begin(), environment.end());
    std::tie(worker.output, worker.errors) = streams.output_and_errors[position];
    if (position < resources_.cpus.size()) worker.cpus = resources_.cpus[position];
    workers.push_back(std::move(worker));
  }
  return workers;
}

WorkerFailure Launcher::failure_of(const RankExit& exit) const {
  WorkerFailure failure;
  failure.host = host_name();
  failure.rank = supervisor_.round()->first_rank + exit.local_rank;
  failure.local_rank = exit.local_rank;
  failure.pid = exit.pid;
  failure.end = exit.end;
  failure.time = exit.time;
  failure.not_started = exit.not_started;
  failure.asked = exit.asked;
  if (const auto& path = attempt_.ranks[static_cast<std::size_t>(exit.local_rank)].error_file)
    failure.error_file = read_error_file(*path);
  failure.last_lines = pump_->last_error_lines(exit.local_rank, quoted_lines);
  failure.out_of_memory_kill = exit.end.signal == SIGKILL && oom_kills() > oom_kills_before_;
  classify(failure);
  return failure;
}

int Launcher::code_for(const Leave& leave, const std::optional<WorkerFailure>& cause) const {
  if (leave.verdict == Verdict::succeeded) return 0;
  if (!request_.own_exit_code) return 1;
  if (leave.verdict == Verdict::interrupted) return 128 + leave.signal;
  if (!cause) return 1;
  return cause->not_started ? 127 : exit_code_of(cause->end);
}

// The failures of this host, and the run's first one where another host reported it.
int Launcher::report_failure() {
  FailureReport report{
      request_.entry, {}, logs_ ? logs_->folder() : std::nullopt, leave_->verdict == Verdict::interrupted};
  for (const RankExit& exit : supervisor_.exits())
    if (exit.failed()) report.failures.push_back(failure_of(exit));
  std::stable_partition(report.failures.begin(), report.failures.end(),
                        [](const WorkerFailure& failure) { return !failure.asked; });
  if (leave_->failure)
    if (auto told = failure_from_json(*leave_->failure); told)
      if (report.failures.empty() || told->rank != report.failures.front().rank)
        report.failures.insert(report.failures.begin(), std::move(*told));
  if (report.failures.empty()) {
    hooks_.note(leave_->reason);
    return code_for(*leave_, std::nullopt);
  }

  if (request_.hosts.maximum > 1 && !leave_->reason.empty()) hooks_.note(leave_->reason);
  const WorkerFailure& cause = report.failures.front();
  if (hooks_.failed)
    hooks_.failed(report);
  else
    fmt::print(stderr, "{}\n", printable_lines(to_text(report)));
  if (report.log_folder) {
    if (auto written = write_file_atomically(*report.log_folder / "failure.json", to_json(report)); !written)
      hooks_.note(written.error().what);
  }
  if (const auto parent = inherited_.find("TORCHELASTIC_ERROR_FILE");
      parent != inherited_.end() && !parent->second.empty() && cause.error_file) {
    if (auto written = write_parent_error_file(parent->second, *cause.error_file, torch_exit_code(cause.end)); !written)
      hooks_.note(written.error().what);
  }
  return code_for(*leave_, cause);
}

int Launcher::end() {
  link_.reset();  // the leading host waits for that
  if (pump_) pump_->finish();
  if (leave_->verdict == Verdict::succeeded) {
    if (logs_) logs_->tidy();
    return 0;
  }
  // A rank that failed by itself before a signal came is reported as well.
  const bool any_failed =
      std::ranges::any_of(supervisor_.exits(), [](const RankExit& exit) { return exit.failed() && !exit.asked; });
  if (leave_->verdict == Verdict::failed || any_failed) return report_failure();
  hooks_.note(leave_->reason);
  return code_for(*leave_, std::nullopt);
}

}  // namespace

Result<int> launch(const LaunchRequest& request, const RankResources& resources, BoundRendezvous rendezvous_point,
                   const LaunchHooks& hooks) {
  auto signals = SignalInbox::open(request.signals);
  if (!signals) return signals.error();
  auto keeper = Keeper::start();
  if (!keeper) return keeper.error();
  if (hooks.started) hooks.started();
  Launcher launcher(request, resources, std::move(rendezvous_point), hooks, std::move(*signals), std::move(*keeper));
  return launcher.run();
}

}  // namespace muster::launch
