#include "train/lockstep_sampler.hpp"

#include "train/lockstep_passes.hpp"
#include "train/memory_use.hpp"

namespace muster::train {

std::vector<generate::Completion> LockstepSampler::complete(const std::vector<generate::Request>& requests,
                                                            const generate::SamplerOptions& options,
                                                            communicate::Communicator& ranks,
                                                            const std::function<void(std::int64_t done)>& done) {
  std::vector<generate::Completion> completions;
  const auto answered = [&] {
    LockstepPasses pace(model_.home(), ranks, ops_.device);
    generate::SamplerOptions paced = options;
    paced.generator.most_sequences = most_sequences_;
    paced.pace = [&pace](const std::function<void()>& pass) { pace.pass(pass); };
    return pace.run([&] { completions = generate::Sampler(model_, ops_, std::move(paced)).complete(requests, done); });
  };
  while (!answered()) {
    TORCH_CHECK_WITH(OutOfMemoryError, most_sequences_ > 1, "one ", what_, " at a time runs out of memory");
    most_sequences_ = (most_sequences_ + 1) / 2;
    release_cached_memory(ops_.device);
  }
  return completions;
}

}  // namespace muster::train
