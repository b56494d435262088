// From a user's request, and the GPUs of a host, to a plan.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "host/device_choice.hpp"
#include "host/host.hpp"
#include "plan/plan.hpp"
#include "spec/run_spec.hpp"

namespace muster::planning {

// What a plan is asked about besides the run's settings.
struct PlanRequest {
  spec::RunSpec spec;
  plan::Work work = plan::Work::inference;
  std::optional<std::int64_t> parameters;  // a model of this size, instead of spec.model.path
  plan::Implementation implementation = plan::Implementation::transformers;
  plan::Planner planner = plan::Planner::optimal;
  std::optional<bool> expandable_segments;         // absent: as PYTORCH_CUDA_ALLOC_CONF says
  std::optional<std::filesystem::path> constants;  // a file with measured constants
  // What a job was given to compute on; absent: what spec.distributed asks for.
  std::optional<host::ChosenDevices> devices = {};
};

// Looks at the GPUs, reads the model: everything the plan follows from.
Result<plan::Question> plan_question(host::Host& host, const PlanRequest& plan_request);

// Adds the phases of a round to the plan of a run that samples what it is trained on. Other plans stay as they are.
void add_phases_of_rounds(const spec::RunSpec& spec, const plan::Question& question, plan::Plan& plan);

}  // namespace muster::planning
