// Where a sweep's trials are recorded. The file that several processes share and the list of one process are two
// implementations.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "sweep/early_stop.hpp"
#include "sweep/observation.hpp"
#include "sweep/search/suggest.hpp"

namespace muster::sweep {

struct RunningTrial {
  std::string trial;
  Settings settings;
  bool elsewhere = false;  // another process runs it
};

struct TrialList {
  std::vector<Observation> finished;  // in the order in which they ended
  std::vector<RunningTrial> running;
};

class TrialLedger {
 public:
  // Called with the trials so far; nothing: no trial will begin.
  using Chooser = std::function<std::optional<Suggestion>(const TrialList&)>;

  virtual ~TrialLedger() = default;

  virtual Result<TrialList> trials() = 0;
  // Calls choose, and gives its choice a new id: one step, during which no other process begins a trial.
  virtual Result<std::optional<RunningTrial>> begin(const Chooser& choose) = 0;
  // Records a report, and returns those of all trials, oldest first.
  virtual Result<std::vector<Report>> report(const Report& report) = 0;
  // Its trial was running, and no longer is.
  virtual Result<void> finish(const Observation& observation) = 0;
};

// Trials known to one process only, with ids NAME.r.0, NAME.r.1, …
class MemoryLedger final : public TrialLedger {
 public:
  explicit MemoryLedger(std::string name, std::vector<Observation> finished = {});

  Result<TrialList> trials() override { return list_; }
  Result<std::optional<RunningTrial>> begin(const Chooser& choose) override;
  Result<std::vector<Report>> report(const Report& report) override;
  Result<void> finish(const Observation& observation) override;

 private:
  std::string name_;
  TrialList list_;
  std::vector<Report> reports_;
  std::size_t begun_ = 0;
};

// suggest() from such a list.
std::optional<Suggestion> suggest_next(const SweepSpec& spec, const TrialList& trials);

}  // namespace muster::sweep
