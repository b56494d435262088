#include "service/worker_run.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <set>

#include "base/allotted_cores.hpp"
#include "base/text.hpp"
#include "service/launch.hpp"

namespace muster::service {
namespace {

int threads_of(const WorkerJob& job) {
  if (job.threads) return *job.threads;
  if (const char* chosen = std::getenv("OMP_NUM_THREADS"))
    if (const auto number = parse_number<int>(chosen); number && *number > 0) return *number;
  return std::max(allotted_cores() / job.ranks, 1);
}

// How many GPUs a request asks for, where it says so by itself.
std::optional<std::size_t> gpus_asked_for(const gpu::SelectionRequest& request) {
  if (!request.ids.empty()) return request.ids.size();
  if (request.count) return static_cast<std::size_t>(*request.count);
  return std::nullopt;
}

wire::Assignment complete(const WorkerJob& job) {
  wire::Assignment assignment = job.assignment;
  assignment.threads = threads_of(job);
  assignment.device = job.selection ? wire::DeviceKind::cuda : wire::DeviceKind::cpu;
  const auto gpus = job.selection ? gpus_asked_for(*job.selection) : std::nullopt;
  const bool own_gpus = job.selection && (!gpus || *gpus >= static_cast<std::size_t>(job.ranks));
  assignment.backend = own_gpus ? wire::Backend::nccl : wire::Backend::gloo;
  return assignment;
}

LaunchWish launch_wish(const WorkerJob& job, const std::filesystem::path& program, const wire::ControlServer& server,
                       int threads) {
  LaunchWish wish;
  wish.request.command = {program.string()};
  wish.request.entry = "muster-worker";
  wish.request.run_id = fmt::format("{}-{}", job.name, ::getpid());
  wish.request.own_exit_code = true;
  wish.request.independent = job.survives_losses;
  wish.request.signals.ending = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  wish.request.signals.ending_as_written = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  wish.request.signals.grace = job.grace;
  wish.request.logs.folder = job.logs.value_or(server.folder() / "logs");
  wish.request.logs.redirects = *launch::StreamChoice::parse("3");
  wish.ranks = job.ranks;
  wish.selection = job.selection;
  wish.without_gpus = !job.selection;
  wish.lease = job.lease;
  if (wish.lease.command.empty()) wish.lease.command = "muster " + job.name;
  wish.threads = threads;
  wish.environment.emplace_back(wire::control_variable, server.address().string());
  return wish;
}

// Passes everything on, and remembers what is needed to tell how the job went.
class JobRecord : public wire::ControlListener {
 public:
  JobRecord(const WorkerJob& job, WorkerListener& listener, const std::function<void(const std::string&)>& note)
      : job_(job), listener_(listener), note_(note) {}

  Result<void> happened(const wire::Event& event) override {
    if (std::holds_alternative<wire::Hello>(event.body)) greeted_.insert(event.rank);
    if (std::holds_alternative<wire::Done>(event.body)) ++done_;
    if (const auto* failed = std::get_if<wire::Failed>(&event.body)) {
      failures_.emplace(event.rank, *failed);
      if (job_.survives_losses && failed->error.kind != Error::Kind::failed && !failed->consequence)
        return given_up(named(event.rank, failed->error));
      if (job_.survives_losses && !failed->consequence && !ending_) note_(to_string(named(event.rank, failed->error)));
    }
    return given_up(listener_.happened(event));
  }
  // Ranks that are asked to end get nothing more, and what they had is nobody else's.
  Result<wire::NextRequest> next_request(int rank) override {
    if (ending_) return wire::NextRequest(wire::NotYet{});
    auto next = listener_.next_request(rank);
    if (!next) ending_ = gave_up_ = true;
    return next;
  }
  std::optional<int> input() override { return ending_ ? std::nullopt : listener_.input(); }
  Result<void> rank_left(int rank, const std::optional<std::string>& reason) override {
    return ending_ ? Result<void>() : given_up(listener_.rank_left(rank, reason));
  }

  bool is_of_no_use(int rank) override { return listener_.is_of_no_use(rank); }

  // From another thread: a signal ends the job.
  void end() { ending_ = true; }
  // An Error ends the job.
  bool gave_up() const { return gave_up_; }
  // Ranks that died before they had said anything. To be called when all is over.
  Result<void> tell_of_the_silent(const launch::FailureReport& report) {
    for (const launch::WorkerFailure& failure : report.failures)
      if (!failure.asked && greeted_.insert(failure.rank).second)
        if (auto told = listener_.rank_left(failure.rank, failure.explanation); !told) return told;
    return {};
  }
  int done() const { return done_; }
  // "rank 3: …" where there are several.
  Error named(int rank, Error error) const {
    if (job_.ranks > 1) error.what = fmt::format("rank {}: {}", rank, error.what);
    return error;
  }
  Error explain(const launch::FailureReport& report) const;

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
  std::map<int, wire::Failed> failures_;
  std::set<int> greeted_;
  int done_ = 0;
};

std::string quoted_end(const launch::WorkerFailure& failure) {
  std::string text;
  for (const std::string& line : failure.last_lines) text += "\n  " + line;
  return text.empty() ? text : fmt::format("\nthe last lines that rank {} wrote:{}", failure.rank, text);
}

// The cause is the first rank that ended badly by itself; a rank that only found its peers gone is none while another
// explains it.
Error JobRecord::explain(const launch::FailureReport& report) const {
  const auto is_cause = [&](const launch::WorkerFailure& failure) {
    const auto said = said_by(failure.rank);
    return !failure.asked && (!said || !said->consequence);
  };
  auto cause = std::ranges::find_if(report.failures, is_cause);
  if (cause == report.failures.end()) cause = report.failures.begin();
  if (const auto said = said_by(cause->rank)) return named(cause->rank, said->error);
  return {Error::Kind::failed, fmt::format("{}: {}{}", job_.name, cause->explanation, quoted_end(*cause)),
          job_.logs ? fmt::format("everything the ranks wrote is in {}",
                                  report.log_folder ? report.log_folder->string() : job_.logs->string())
                    : ""};
}

}  // namespace

Result<int> run_workers(Host& host, const WorkerJob& job, WorkerListener& listener,
                        const std::function<void(const std::string&)>& note) {
  const auto program = find_worker();
  if (!program) return program.error();
  auto server = wire::ControlServer::open();
  if (!server) return server.error();
  const wire::Assignment assignment = complete(job);
  const LaunchWish wish = launch_wish(job, *program, *server, assignment.threads);

  JobRecord record(job, listener, note);
  std::optional<launch::FailureReport> failure;
  const LaunchListener hooks{.note =
                                 [&](const std::string& text) {
                                   // Of ranks that end because the job does, nothing need be told.
                                   if (!record.gave_up()) note(text);
                                 },
                             .started = [&] { server->serve(assignment, job.ranks, record); },
                             .failed = [&](const launch::FailureReport& report) { failure = report; },
                             .interrupted = [&] { record.end(); }};
  const auto code = run_launch(host, wish, hooks);
  const auto served = server->finish();
  if (!code) return code.error();
  if (!served) return served.error();
  if (job.survives_losses && failure && (failure->interrupted || record.done() > 0)) {
    if (auto told = record.tell_of_the_silent(*failure); !told) return told.error();
    return failure->interrupted ? *code : 0;
  }
  if (failure) return record.explain(*failure);
  if (*code == 0 && record.done() < job.ranks)
    return Error{
        Error::Kind::failed,
        fmt::format("{} of {} ranks ended without having done their work", job.ranks - record.done(), job.ranks),
        "report this as a bug of muster"};
  return *code;
}

}  // namespace muster::service
