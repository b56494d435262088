// muster sweep: trials of a sweep run side by side, each on its own GPUs, and their results decide what is
// tried next.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "host/host.hpp"
#include "service/sweep_slots.hpp"
#include "sweep/file_ledger.hpp"
#include "sweep/sweep_folder.hpp"
#include "sweep/sweep_spec.hpp"

namespace muster::service {

struct SweepRequest {
  std::optional<std::string> name;  // absent: named after the file
  std::optional<std::string> file;  // absent: the sweep's own sweep.yaml, else the built-in sweep
  std::vector<std::string> words;   // key=value
  std::string output = "sweeps";    // the folder of all sweeps
  SlotOptions slots;
  host::LeaseRequest lease;
};

// A sweep that could begin, or continue: all that is known without taking or writing anything.
struct SweepPlan {
  sweep::SweepFolder folder;
  std::string text;  // of sweep.yaml
  sweep::SweepSpec spec;
  std::vector<sweep::Observation> finished;
  bool goes_on = false;            // it exists already
  bool changed = true;             // its file has to be written
  std::vector<std::string> notes;  // what the user should know
};

// The requested sweep. An existing one continues with its own file: limits may change, anything else is refused with
// the difference named.
Result<SweepPlan> plan_sweep(const SweepRequest& request);

// Refused, with the differences named, if the existing sweep is another one.
Result<void> check_same_sweep(const SweepPlan& plan);

// What would be tried first, as --dry-run shows it: space, method, limits, GPUs, suggestions.
std::string describe_sweep(const SweepPlan& plan, const Slots& slots);

struct SweepProgress {
  std::size_t finished = 0;
  std::optional<std::int64_t> limit;  // of trials
  std::optional<double> best;
  std::vector<std::string> running;  // "NAME.r.3 on GPU 1, 12 s, step 40: 0.31"
  double seconds = 0;                // since this command began
};

struct SweepListener {
  std::function<void(const std::string&)> note;
  std::function<void(const std::string&)> ended;  // a line for each trial that did
  std::function<void(const SweepProgress&)> progress;
};

struct SweepSummary {
  std::string end;  // why no further trial began
  std::vector<sweep::Observation> finished;
  bool by_failures = false;  // so many in a row that the sweep was ended
  int signal = 0;            // that interrupted it

  int exit_code() const;
};

// Takes the GPUs while it runs, and runs trials until the limits are reached, a signal comes or nothing is
// left to try. To be called while this process has one thread.
Result<SweepSummary> run_sweep(host::Host& host, const SweepRequest& request, const SweepPlan& plan, const SweepListener& listener);

// Several lines: how it ended, the best settings, and where everything is. program: how the user called muster, for
// commands to paste.
std::string summary_text(const SweepPlan& plan, const SweepSummary& summary, const std::string& program);

// Ask and tell on standard input and output: docs/sweep.md.
Result<void> serve_sweep(const SweepPlan& plan, const std::function<void(const std::string&)>& note);

// The best trials of an existing sweep, in the forms that other programs take.
struct BestTrial {
  sweep::Observation observation;
  std::string patch;                   // YAML
  std::vector<std::string> overrides;  // key=value
  std::string command;                 // a line for a shell
};
Result<std::vector<BestTrial>> best_of_sweep(const std::string& output, const std::string& name, std::size_t most,
                                             const std::string& program);

}  // namespace muster::service
