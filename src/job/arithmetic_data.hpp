// builtin:arithmetic as the settings of a run ask for it.
#pragma once

#include "base/text.hpp"
#include "data/arithmetic.hpp"
#include "spec/run_spec.hpp"

namespace muster::job {

inline data::ArithmeticSettings arithmetic_settings(const spec::RunSpec& spec) {
  data::ArithmeticSettings settings;
  if (!spec.data.operations.empty()) settings.operations = join(spec.data.operations, "");
  settings.digits = spec.data.digits;
  settings.held_out = spec.data.held_out;
  settings.seed = static_cast<std::uint64_t>(spec.experiment.seed);
  return settings;
}

}  // namespace muster::job
