// A sweep for any program that can read and write lines: it asks for trials and reports their results.
// docs/sweep.md has the protocol.
#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "sweep/sweep_spec.hpp"
#include "sweep/trial_ledger.hpp"

namespace muster::sweep {

class AskTell {
 public:
  // seconds: since the sweep began.
  AskTell(const SweepSpec& spec, TrialLedger& ledger, std::function<double()> seconds)
      : spec_(spec), ledger_(ledger), seconds_(std::move(seconds)) {}

  // One line in, one line out, without newlines. An invalid line is answered with {"error", "try"}; an
  // Error comes from the ledger, and ends it.
  Result<std::string> answer(std::string_view line);

 private:
  Result<nlohmann::ordered_json> ask();
  Result<nlohmann::ordered_json> tell(const nlohmann::ordered_json& order);
  Result<nlohmann::ordered_json> report(const nlohmann::ordered_json& order);
  Result<nlohmann::ordered_json> best(const nlohmann::ordered_json& order);

  const SweepSpec& spec_;
  TrialLedger& ledger_;
  std::function<double()> seconds_;
  std::map<std::string, double> begun_;  // when trials were asked for
  std::set<std::string> stopped_;        // trials that were told to stop
};

// Answers lines until the input ends.
Result<void> serve_ask_tell(AskTell& session, std::istream& in, std::ostream& out);

}  // namespace muster::sweep
