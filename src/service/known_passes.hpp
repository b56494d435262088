// What runs found out about memory: how large passes could be where their plan was wrong, or a GPU was not empty.
#pragma once

#include <filesystem>

#include "service/train.hpp"

namespace muster::service {

struct KnownPass {
  std::int64_t micro_batch = 1;
  spec::Recomputation recompute = spec::Recomputation::none;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("micro_batch", self.micro_batch);
    visit("recompute", self.recompute);
  }
};

// Files in the cache, one for everything that memory depends on: the model's shape, types, strategy, ranks, GPUs and
// how much of them is free. What is older than a month, or cannot be read, is not known.
class KnownPasses {
 public:
  explicit KnownPasses(const std::filesystem::path& cache) : folder_(cache / "passes") {}

  std::optional<KnownPass> find(const TrainPlan& plan, const wire::TrainTask& task) const;
  // Memory ran out, and this is what is tried next. That it cannot be kept does not matter.
  void keep(const TrainPlan& plan, const wire::TrainTask& task, const KnownPass& pass) const;

 private:
  std::filesystem::path folder_;
};

// Passes as small as an earlier run's came to be, unless they are already; plans again, and says so.
void begin_with_known_pass(const KnownPasses& known, TrainPlan& plan, wire::TrainTask& task);

}  // namespace muster::service
