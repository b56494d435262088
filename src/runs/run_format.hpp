// Numbers of runs as people and programs read them.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/table.hpp"
#include "runs/runs.hpp"

namespace muster::runs {

// "0.8312"; "-" where it is not known.
std::string loss_words(const std::optional<double>& loss);
// "97.8 %"
std::string share_words(const std::optional<double>& share);
// "1 min 8 s"
std::string span_words(const std::optional<double>& seconds);
// "5,210"
std::string counted(double number);
// "5,210", "0.229359"; "-" where it is not known.
std::string number_words(const std::optional<double>& number);
// A line from a run's files or folder names, without anything that a terminal would obey.
std::string safe_line(std::string_view text);
Colour colour_of(RunStatus status);
std::string first_line(const std::string& text);
// A run as `muster runs --json` has it. Not-a-number and infinities, which JSON lacks, are null.
nlohmann::ordered_json summary_json(const RunSummary& run);

}  // namespace muster::runs
