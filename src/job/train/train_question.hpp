// What the planner is asked about a training, and in which types it is computed.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.hpp"
#include "host/device_choice.hpp"
#include "host/host.hpp"
#include "job/train/batch_sizes.hpp"
#include "plan/plan.hpp"
#include "spec/element_type.hpp"
#include "spec/run_spec.hpp"

namespace muster::job {

// The type that is computed in, and its word.
spec::ElementType compute_type(const spec::RunSpec& spec, const host::ChosenDevices& devices);
std::string_view word(spec::ElementType type);

Result<plan::Question> ask_for_training(host::Host& host, spec::RunSpec settings, const host::ChosenDevices& chosen,
                                        const std::filesystem::path& model, spec::ElementType compute, const BatchSizes& sizes);

}  // namespace muster::job
