// result.json: how a run ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster::store {

enum class Ending {
  done,         // everything that was requested
  failed,       // given up; error says why
  interrupted,  // by a signal; it can be resumed
};
std::string_view name(Ending ending);  // "done"

struct RunResult {
  Ending status = Ending::done;
  std::int64_t steps = 0;             // optimizer steps that were done
  std::optional<double> final_loss;   // of the last step
  std::optional<double> eval_loss;    // newest, where it was measured
  std::optional<double> exact_match;  // newest, from 0 to 1, where it was measured
  double seconds = 0;                 // of all attempts together
  std::int64_t restarts = 0;          // after failures of ranks
  std::optional<std::string> error;   // what went wrong, as it was reported
};

// Numbers that JSON lacks (infinities, not-a-number) are written as null.
std::string result_json(const RunResult& result);
// Unknown keys are ignored; a missing status, or values of another type, are an error.
Result<RunResult> parse_result(std::string_view text, std::string_view source);

}  // namespace muster::store
