#include "job/train/batch_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::job {
namespace {

constexpr std::int64_t usual_batch = 8;  // sequences per optimizer step and rank, by default

// The nearest batch that ranks can share evenly; of two equally near, the larger.
std::int64_t shared_evenly(std::int64_t batch, std::int64_t ranks) {
  return std::max<std::int64_t>((batch + ranks / 2) / ranks, 1) * ranks;
}

}  // namespace

Result<BatchSizes> batch_sizes(const spec::RunSpec& spec, bool is_given, std::int64_t ranks) {
  const spec::TrainingSpec& training = spec.training;
  BatchSizes sizes{0, training.micro_batch_size, training.gradient_accumulation_steps};
  if (const auto policy = spec.policy_options(); policy && !(sizes.pass && sizes.passes)) {
    sizes.all = training.batch_size.value_or(policy->answers);
    return sizes;
  }
  const bool both = sizes.pass && sizes.passes;
  const std::int64_t product = sizes.pass.value_or(usual_batch) * sizes.passes.value_or(1) * ranks;
  sizes.all = training.batch_size.value_or(product);
  if (!is_given) sizes.all = shared_evenly(sizes.all, ranks);
  if (both && sizes.all != product)
    return Error{Error::Kind::bad_input,
                 fmt::format("training.batch_size is {}, but micro_batch_size {} × gradient_accumulation_steps {} × {} "
                             "ranks is {}",
                             sizes.all, *sizes.pass, *sizes.passes, ranks, product),
                 "leave one of them out"};
  return sizes;
}

}  // namespace muster::job
