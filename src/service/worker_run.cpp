#include "service/worker_run.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

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
  explicit JobRecord(WorkerListener& listener) : listener_(listener) {}

  Result<void> happened(const wire::Event& event) override {
    if (const auto* failed = std::get_if<wire::Failed>(&event.body)) failures_.emplace(event.rank, *failed);
    if (std::holds_alternative<wire::Done>(event.body)) ++done_;
    return listener_.happened(event);
  }
  Result<wire::NextRequest> next_request(int rank) override { return listener_.next_request(rank); }
  std::optional<int> input() override { return listener_.input(); }
  Result<void> rank_left(int rank, const std::optional<std::string>& reason) override {
    return listener_.rank_left(rank, reason);
  }

  int done() const { return done_; }
  Error explain(const WorkerJob& job, const launch::FailureReport& report) const;

 private:
  std::optional<wire::Failed> said_by(int rank) const {
    const auto found = failures_.find(rank);
    return found == failures_.end() ? std::nullopt : std::optional(found->second);
  }

  WorkerListener& listener_;
  std::map<int, wire::Failed> failures_;
  int done_ = 0;
};

std::string quoted_end(const launch::WorkerFailure& failure) {
  std::string text;
  for (const std::string& line : failure.last_lines) text += "\n  " + line;
  return text.empty() ? text : fmt::format("\nthe last lines that rank {} wrote:{}", failure.rank, text);
}

// The cause is the first rank that ended badly by itself; a rank that only found its peers gone is none while another
// explains it.
Error JobRecord::explain(const WorkerJob& job, const launch::FailureReport& report) const {
  const auto is_cause = [&](const launch::WorkerFailure& failure) {
    const auto said = said_by(failure.rank);
    return !failure.asked && (!said || !said->consequence);
  };
  auto cause = std::ranges::find_if(report.failures, is_cause);
  if (cause == report.failures.end()) cause = report.failures.begin();
  if (const auto said = said_by(cause->rank)) {
    Error error = said->error;
    if (job.ranks > 1) error.what = fmt::format("rank {}: {}", cause->rank, error.what);
    return error;
  }
  return {Error::Kind::failed, fmt::format("{}: {}{}", job.name, cause->explanation, quoted_end(*cause)),
          job.logs ? fmt::format("everything the ranks wrote is in {}",
                                 report.log_folder ? report.log_folder->string() : job.logs->string())
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

  JobRecord record(listener);
  std::optional<launch::FailureReport> failure;
  const LaunchListener hooks{.note = note,
                             .started = [&] { server->serve(assignment, job.ranks, record); },
                             .failed = [&](const launch::FailureReport& report) { failure = report; }};
  const auto code = run_launch(host, wish, hooks);
  const auto served = server->finish();
  if (!code) return code.error();
  if (!served) return served.error();
  if (failure) return record.explain(job, *failure);
  if (*code == 0 && record.done() < job.ranks)
    return Error{
        Error::Kind::failed,
        fmt::format("{} of {} ranks ended without having done their work", job.ranks - record.done(), job.ranks),
        "report this as a bug of muster"};
  return *code;
}

}  // namespace muster::service
