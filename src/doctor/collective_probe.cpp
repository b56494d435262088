#include "doctor/collective_probe.hpp"

#include <fmt/format.h>

#include "job/worker_run.hpp"
#include "json/fields.hpp"

namespace muster::doctor {
namespace {

constexpr int ranks = 2;
constexpr std::chrono::seconds rank_patience(30);  // how long the ranks wait for each other

// Keeps the result.
class ResultKeeper : public job::WorkerListener {
 public:
  Result<void> on_event(const wire::Event& event) override {
    const auto* result = std::get_if<wire::TaskResult>(&event.body);
    if (result == nullptr) return {};
    auto read = parse_fields<wire::CollectiveReport>(result->row, "the result of the collective check");
    if (!read) return read.error();
    report_ = std::move(*read);
    return {};
  }
  const std::optional<wire::CollectiveReport>& report() const { return report_; }

 private:
  std::optional<wire::CollectiveReport> report_;
};

Result<wire::CollectiveReport> run_check(host::Host& host, const std::optional<gpu::SelectionRequest>& selection) {
  job::WorkerJob job;
  job.name = "doctor";
  job.ranks = ranks;
  job.assignment.task = wire::CollectiveCheck{};
  job.assignment.timeout = rank_patience;
  job.selection = selection;
  job.lease.reclaim = std::chrono::milliseconds(0);
  ResultKeeper keeper;
  const auto code = job::run_workers(host, job, keeper, [](const std::string&) {});
  if (!code) return code.error();
  if (*code != 0) return Error{Error::Kind::failed, fmt::format("ended with exit code {}", *code), "run it again"};
  if (!keeper.report()) return Error{Error::Kind::failed, "gave no result", "report this as a bug of muster"};
  return *keeper.report();
}

}  // namespace

std::vector<CollectiveFacts> probe_collectives(const host::HostSources& sources) {
  if (const auto worker = job::find_worker(); !worker) return {{"", worker.error(), true}};
  std::vector<CollectiveFacts> facts;
  host::Host host(sources);
  facts.push_back({"2 CPU ranks", run_check(host, std::nullopt), false});
  if (sources.inventory_file) return facts;  // nothing can compute on the GPUs of a file
  gpu::SelectionRequest request;
  request.count = ranks;
  request.up_to = true;
  const auto view = host.look();
  if (!view) return facts;
  const auto chosen = host::pick(*view, request);  // none, or none that is free: other checks report that
  if (!chosen || chosen->empty()) return facts;
  request.count = static_cast<int>(chosen->size());
  facts.push_back({chosen->size() > 1 ? "2 GPU ranks" : "2 ranks on one GPU", run_check(host, request), false});
  return facts;
}

}  // namespace muster::doctor
