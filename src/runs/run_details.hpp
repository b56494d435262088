// One run in detail: muster runs show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_count.hpp"
#include "runs/run_settings.hpp"
#include "runs/runs.hpp"
#include "runs/step_profile.hpp"
#include "store/metrics_table.hpp"
#include "store/terminal_plot.hpp"

namespace muster::runs {

struct RunCheckpoint {
  std::int64_t step = 0;
  ByteCount bytes;
};

struct RunDetails {
  RunSummary summary;
  RunSettings settings;             // all that spec.yaml names
  std::optional<std::string> plan;  // in one line
  store::MetricsTable metrics;      // empty if there are none
  std::optional<StepProfile> time;  // where the time of the newest steps went
  std::vector<RunCheckpoint> checkpoints;
  bool exported = false;                  // model/ is there
  std::optional<std::string> last_error;  // whole
  std::vector<std::string> problems;      // what could not be read
};

// The size of all files in a folder and the folders in it.
ByteCount bytes_in(const std::filesystem::path& folder);

RunDetails describe_run(const store::RunFolder& run);

std::string run_text(const RunDetails& run, const store::TextPlotForm& form);
// The object of `muster runs --json` and "settings" (those that are not built-in), "plan", "columns" (name → {"first",
// "last", "least", "most"}), "time" ({"steps", "seconds", "parts"}), "checkpoints", "exported", "error", "problems".
std::string run_json(const RunDetails& run);

}  // namespace muster::runs
