// muster collect: a model plays episodes of an environment, whose trajectories are written down. The ranks answer as those of
// muster generate do; the environment is here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "host/host.hpp"
#include "job/generate/generate.hpp"
#include "spec/resolve.hpp"

namespace muster::job {

struct CollectRequest {
  spec::ResolvedSpec settings;
  std::int64_t episodes = 100;
  std::optional<double> least_reward = {};  // trajectories that earned less are left out, and those of unknown worth
  std::string output = "-";                 // a file, or "-" for standard output
  host::Purpose purpose = host::Purpose::compute;
};

struct CollectPlan {
  GeneratePlan generation;
  std::vector<std::string> rows;  // of the data: an episode begins with each in turn
  bool has_template = false;      // else the model reads contents, a line each
};

// Everything that can be refused is refused here. A plan that does not fit is one with a refusal.
Result<CollectPlan> plan_collection(host::Host& host, const CollectRequest& request);

struct CollectSummary {
  int exit_code = 0;
  std::int64_t episodes = 0;  // played
  std::int64_t written = 0;
  std::int64_t answers = 0;
  std::int64_t unknown = 0;  // episodes whose worth nobody knows
  std::int64_t tokens = 0;
  double mean_reward = 0;  // of those that have one
};
std::string summary_text(const CollectPlan& plan, const CollectSummary& summary);
std::string summary_json(const CollectPlan& plan, const CollectSummary& summary);

struct CollectListener {
  std::function<void(const std::string&)> note;
  std::function<void(const std::string& text, std::chrono::milliseconds elapsed)> progress = {};
};

// To be called while this process has one thread.
Result<CollectSummary> collect(host::Host& host, const CollectRequest& request, const CollectPlan& plan,
                               const CollectListener& listener);

}  // namespace muster::job
