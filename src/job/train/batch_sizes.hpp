// How many sequences an optimizer step has: over all ranks, and per pass.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "spec/run_spec.hpp"

namespace muster::job {

struct BatchSizes {
  std::int64_t all = 0;
  std::optional<std::int64_t> pass;
  std::optional<std::int64_t> passes;
};

// is_given: the user named training.batch_size. A job's own batch size follows the number of ranks; of sampled answers it
// is a whole round, whatever they are.
Result<BatchSizes> batch_sizes(const spec::RunSpec& spec, bool is_given, std::int64_t ranks);

}  // namespace muster::job
