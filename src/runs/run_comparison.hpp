// Two runs side by side: muster runs compare.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runs/run_details.hpp"

namespace muster::runs {

// How far the losses of two runs agree, bit for bit.
struct CurveComparison {
  std::size_t common = 0;                        // steps that both have
  std::optional<std::int64_t> first_difference;  // the first of those steps whose bits differ
  double largest_difference = 0;                 // over those steps; infinite where only one is not a number
  bool same_steps = false;                       // both have the same steps

  // The same steps, at least one, and the same bits at each.
  bool equal() const { return common > 0 && same_steps && !first_difference; }
};
CurveComparison compare_curves(const store::MetricsTable& first, const store::MetricsTable& second);

struct RunComparison {
  RunDetails first, second;
  std::vector<SettingDifference> settings;
  CurveComparison loss;
};
RunComparison compare_runs(const store::RunFolder& first, const store::RunFolder& second);

std::string comparison_text(const RunComparison& comparison, const store::TextPlotForm& form);
// {"first", "second" (as `muster runs --json`), "settings": {key: [first, second]}, "loss": {"common_steps",
// "first_difference", "largest_difference", "equal"}}
std::string comparison_json(const RunComparison& comparison);

}  // namespace muster::runs
