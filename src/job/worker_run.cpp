#include "job/worker_run.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <set>

#include "base/text.hpp"
#include "job/launch.hpp"
#include "system/allotted_cores.hpp"

namespace muster::job {
namespace {

int threads_of(const WorkerJob& job) {
  if (job.threads) return *job.threads;
  if (const char* chosen = std::getenv("OMP_NUM_THREADS"))
    if (const auto number = parse_number<int>(chosen); number && *number > 0) return *number;
  return std::max(allotted_cores() / job.ranks, 1);
}

// How many GPUs a request asks for, if it says so itself.
std::optional<std::size_t> gpus_asked_for(const gpu::SelectionRequest& request) {
  if (!request.ids.empty()) return request.ids.size();
  if (request.count) return static_cast<std::size_t>(*request.count);
  return std::nullopt;
}

wire::Backend backend_of(const WorkerJob& job) {
  const auto gpus = job.selection ? gpus_asked_for(*job.selection) : std::nullopt;
  const bool own_gpus = job.selection && (!gpus || *gpus >= static_cast<std::size_t>(job.ranks));
  if (job.backend == spec::Backend::nccl) return own_gpus ? wire::Backend::nccl : wire::Backend::nccl_on_shared_gpus;
  return own_gpus && job.backend == spec::Backend::automatic ? wire::Backend::nccl : wire::Backend::gloo;
}

wire::Assignment complete(const WorkerJob& job) {
  wire::Assignment assignment = job.assignment;
  assignment.threads = threads_of(job);
  assignment.device = job.selection ? wire::DeviceKind::cuda : wire::DeviceKind::cpu;
  assignment.backend = backend_of(job);
  return assignment;
}

LaunchJobRequest launch_request_of(const WorkerJob& job, const std::filesystem::path& program,
                                   const wire::ControlServer& server, int threads) {
  LaunchJobRequest launch_request;
  launch_request.request.command = {program.string()};
  launch_request.request.entry = "muster-worker";
  launch_request.request.run_id = fmt::format("{}-{}", job.name, ::getpid());
  launch_request.request.own_exit_code = true;
  launch_request.request.independent = job.survives_losses;
  launch_request.request.signals.ending = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1};
  launch_request.request.signals.ending_as_written = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1";
  launch_request.request.signals.grace = job.grace;
  launch_request.request.signals.grace_after_failure = job.grace_after_failure;
  launch_request.request.logs.folder = job.logs.value_or(server.folder() / "logs");
  launch_request.request.logs.redirects = *launch::StreamChoice::parse("3");
  launch_request.ranks = job.ranks;
  launch_request.selection = job.selection;
  launch_request.without_gpus = !job.selection;
  launch_request.lease = job.lease;
  if (launch_request.lease.command.empty()) launch_request.lease.command = "muster " + job.name;
  launch_request.threads = threads;
  launch_request.inherited = job.inherited;
  launch_request.environment.emplace_back(wire::control_variable, server.address().string());
  if (job.hosts) {
    launch_request.request.run_id = job.name;
    launch_request.request.hosts = {job.hosts->count, job.hosts->count};
    launch_request.request.rendezvous_point.kind = launch::RendezvousPoint::Kind::by_rank;
    launch_request.request.rendezvous_point.endpoint = {job.hosts->address, job.hosts->port};
    launch_request.request.rendezvous_point.node_rank = job.hosts->number;
  } else {
    if (job.store.address) launch_request.request.rendezvous_point.endpoint.host = *job.store.address;
    if (job.store.port) launch_request.request.rendezvous_point.endpoint.port = static_cast<std::uint16_t>(*job.store.port);
  }
  return launch_request;
}

// Passes everything on, and remembers what is needed to report how the job went.
class JobRecord : public wire::ControlListener {
 public:
  JobRecord(const WorkerJob& job, WorkerListener& listener, const std::function<void(const std::string&)>& note)
      : job_(job), listener_(listener), note_(note) {}

  Result<void> on_event(const wire::Event& event) override {
    if (const auto* hello = std::get_if<wire::Hello>(&event.body)) {
      greeted_.insert(event.rank);
      present_[event.rank] = static_cast<pid_t>(hello->pid);
    }
    if (std::holds_alternative<wire::Done>(event.body)) ++done_;
    if (const auto* failed = std::get_if<wire::Failed>(&event.body)) {
      failures_.emplace(event.rank, *failed);
      if (job_.survives_losses && failed->error.kind != Error::Kind::failed && !failed->consequence)
        return given_up(named(event.rank, failed->error));
      if (job_.survives_losses && !failed->consequence && !ending_) note_(to_string(named(event.rank, failed->error)));
    }
    return given_up(listener_.on_event(event));
  }
  // Ranks that are asked to end get nothing more, and what they had goes to no other rank.
  Result<wire::NextRequest> next_request(int rank) override {
    if (ending_) return wire::NextRequest(wire::NotYet{});
    auto next = listener_.next_request(rank);
    if (!next) ending_ = gave_up_ = true;
    return next;
  }
  std::optional<int> input() override { return ending_ ? std::nullopt : listener_.input(); }
  Result<void> rank_left(int rank, const std::optional<std::string>& reason) override {
    present_.erase(rank);
    return ending_ ? Result<void>() : given_up(listener_.rank_left(rank, reason));
  }

  std::optional<std::chrono::steady_clock::time_point> deadline() override {
    return ending_ ? std::nullopt : listener_.deadline();
  }
  // Ranks that hang would not notice that their connection is gone.
  Error deadline_passed() override {
    ending_ = gave_up_ = true;
    for (const auto& [rank, pid] : present_) ::kill(pid, SIGKILL);
    return listener_.deadline_passed();
  }

  bool is_stranded(int rank) override {
    const bool useless = listener_.is_stranded(rank);
    if (useless) let_go_.insert(rank);
    return useless;
  }

  // From another thread: a signal ends the job.
  void end(int signal) {
    ending_ = true;
    int none = 0;
    signal_.compare_exchange_strong(none, signal);
  }
  // The first one, if any came.
  std::optional<int> signal() const { return signal_ == 0 ? std::nullopt : std::optional<int>(signal_); }
  // An Error ends the job.
  bool gave_up() const { return gave_up_; }
  // Ranks that died before they reported anything. To be called when all is over.
  Result<void> tell_of_the_silent(const launch::FailureReport& report) {
    for (const launch::WorkerFailure& failure : report.failures)
      if (!failure.asked && greeted_.insert(failure.rank).second)
        if (auto told = listener_.rank_left(failure.rank, failure.explanation); !told) return told;
    return {};
  }
  int done() const { return done_; }
  // "rank 3: …" if there are several.
  Error named(int rank, Error error) const {
    if (job_.ranks > 1 || job_.hosts) error.what = fmt::format("rank {}: {}", rank, error.what);
    return error;
  }
  Error explain(const launch::FailureReport& report) const;
  // A signal was the end, whatever else went wrong: that is reported, too.
  int interrupted_end(const Result<void>& served, const std::optional<launch::FailureReport>& failure) const {
    if (!served)
      note_(to_string(served.error()));
    else if (failure)
      note_(to_string(explain(*failure)));
    return 128 + *signal();
  }

 private:
  Result<void> given_up(Result<void> result) {
    if (!result) ending_ = gave_up_ = true;
    return result;
  }
  std::optional<wire::Failed> said_by(int rank) const {
    const auto found = failures_.find(rank);
    return found == failures_.end() ? std::nullopt : std::optional(found->second);
  }

  const WorkerJob& job_;
  WorkerListener& listener_;
  const std::function<void(const std::string&)>& note_;
  std::atomic<bool> ending_ = false, gave_up_ = false;
  std::atomic<int> signal_ = 0;
  std::map<int, wire::Failed> failures_;
  std::set<int> greeted_;
  std::map<int, pid_t> present_;  // ranks whose connection is open
  std::set<int> let_go_;          // their connections were closed, which ended them
  int done_ = 0;
};

wire::RankRange ranks_of(const WorkerJob& job) { return {job.hosts ? job.hosts->number * job.ranks : 0, job.ranks}; }

std::string quoted_end(const launch::WorkerFailure& failure) {
  std::string text;
  for (const std::string& line : failure.last_lines) text += "\n  " + line;
  return text.empty() ? text : fmt::format("\nthe last lines that rank {} wrote:{}", failure.rank, text);
}

// The cause is the first rank that ended badly by itself; a rank that only found its peers gone, or was let go after
// them, is not the cause while another explains it.
Error JobRecord::explain(const launch::FailureReport& report) const {
  const auto is_cause = [&](const launch::WorkerFailure& failure) {
    const auto said = said_by(failure.rank);
    const bool by_itself = failure.end.signal || (!let_go_.contains(failure.rank) && (!said || !said->consequence));
    return !failure.asked && by_itself;
  };
  auto cause = std::ranges::find_if(report.failures, is_cause);
  if (cause == report.failures.end()) cause = report.failures.begin();
  if (const auto said = said_by(cause->rank)) return named(cause->rank, said->error);
  // A rank of another host reports nothing here except its exit code.
  const bool refused = cause->end.exit_code == exit_code(Error::Kind::refused);
  return {refused ? Error::Kind::refused : Error::Kind::failed,
          fmt::format("{}: {}{}", job_.name, cause->explanation, quoted_end(*cause)),
          job_.logs ? fmt::format("everything the ranks wrote is in {}",
                                  report.log_folder ? report.log_folder->string() : job_.logs->string())
                    : ""};
}

}  // namespace

Result<void> check_backend(const WorkerJob& job) {
  if (job.backend != spec::Backend::nccl || job.selection) return {};
  return Error{Error::Kind::bad_input, "distributed.backend is nccl, which takes GPUs, and these are CPU ranks",
               "leave distributed.backend at auto, or write gloo"};
}

Result<int> run_workers(host::Host& host, const WorkerJob& job, WorkerListener& listener,
                        const std::function<void(const std::string&)>& note) {
  const auto program = find_worker();
  if (!program) return program.error();
  auto server = wire::ControlServer::open();
  if (!server) return server.error();
  const wire::Assignment assignment = complete(job);
  LaunchJobRequest launch_request = launch_request_of(job, *program, *server, assignment.threads);
  if (job.hosts) {
    auto secret = launch::usual_secret_source();
    if (!secret) return secret.error();
    launch_request.request.secret = std::move(*secret);
  }

  JobRecord record(job, listener, note);
  std::optional<launch::FailureReport> failure;
  const LaunchListener hooks{.note =
                                 [&](const std::string& text) {
                                   // Nothing needs to be reported about ranks that end because the job does.
                                   if (!record.gave_up()) note(text);
                                 },
                             .started = [&] { server->serve(assignment, ranks_of(job), record); },
                             .failed = [&](const launch::FailureReport& report) { failure = report; },
                             .interrupted = [&](int signal) { record.end(signal); }};
  const auto code = run_launch(host, launch_request, hooks);
  const auto served = server->finish();
  if (!code) return code.error();
  if (!job.survives_losses && record.signal()) return record.interrupted_end(served, failure);
  if (!served) return served.error();
  if (job.survives_losses && failure && (failure->interrupted || record.done() > 0)) {
    if (auto told = record.tell_of_the_silent(*failure); !told) return told.error();
    return failure->interrupted ? *code : 0;
  }
  if (failure) return record.explain(*failure);
  if (record.signal()) return *code;
  if (*code != 0) return Error{Error::Kind::failed, "the ranks were ended before their work was done", ""};
  if (record.done() < job.ranks)
    return Error{
        Error::Kind::failed,
        fmt::format("{} of {} ranks ended without having done their work", job.ranks - record.done(), job.ranks),
        "report this as a bug of muster"};
  return *code;
}

}  // namespace muster::job
